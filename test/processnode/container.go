// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// containerState is the state of a Pod's container, from which its status is built.
type containerState struct {
	waiting    *refusal
	running    time.Time // the start of the current run; zero while the container does not run
	terminated *ended
	last       *ended // the previous run
	restarts   int32
	started    bool // the startup probe, if any, has succeeded
	ready      bool
	imageID    string
	id         string
}

type ended struct {
	code              int
	started, finished time.Time
	message           string
	id                string
}

// runOnce runs the container until it ends and returns its exit code.
func (w *worker) runOnce(ctx context.Context, img image, id identity, run int) int {
	p, err := w.launch(ctx, img, id, run)
	if err != nil {
		if ctx.Err() != nil {
			return 0
		}
		now := time.Now()
		w.event(corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		w.set(func(s *containerState) {
			s.begin()
			s.finish(&ended{code: 128, started: now, finished: now, message: err.Error()})
			s.imageID = img.repository + "@" + img.digest
		})
		return 128
	}
	started := time.Now()
	cid := fmt.Sprintf("process://%d-%d", p.PID(), started.UnixNano())
	w.mu.Lock()
	w.process = p
	w.mu.Unlock()
	c := w.container()
	w.set(func(s *containerState) {
		s.begin()
		s.running, s.id, s.imageID = started, cid, img.repository+"@"+img.digest
		s.started = c.StartupProbe == nil
		s.ready = s.started && c.ReadinessProbe == nil
	})
	w.event(corev1.EventTypeNormal, "Started", "Started container "+c.Name)

	probing, stopProbes := context.WithCancel(ctx)
	probes := sync.WaitGroup{}
	probes.Go(func() { w.probe(probing, p) })
	select {
	case <-p.Done():
	case <-ctx.Done():
		w.event(corev1.EventTypeNormal, "Killing", "Stopping container "+c.Name)
		p.Stop(w.grace())
	}
	stopProbes()
	probes.Wait()
	code := p.ExitCode()
	w.mu.Lock()
	w.process = nil
	w.mu.Unlock()
	e := &ended{code: code, started: started, finished: time.Now(), id: cid}
	w.set(func(s *containerState) { s.finish(e) })
	return code
}

// begin records the start of the first or a later run.
func (s *containerState) begin() {
	if s.terminated != nil {
		s.last = s.terminated
	}
	if s.last != nil {
		s.restarts++
	}
	s.waiting, s.terminated = nil, nil
}

// finish records the end of a run.
func (s *containerState) finish(e *ended) {
	s.terminated = e
	s.running, s.ready, s.started = time.Time{}, false, false
}

func (w *worker) launch(ctx context.Context, img image, id identity, run int) (_ *child.Process, err error) {
	defer must.Return(&err)
	pod := w.latest()
	c := &pod.Spec.Containers[0]
	values := must.Get(w.node.environment(ctx, pod, w.podIP))
	var env []string
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	command := c.Command
	if len(command) == 0 {
		command = []string{img.path}
	}
	var args []string
	for _, a := range append(append([]string{}, command...), c.Args...) {
		args = append(args, expand(a, values))
	}
	dir := c.WorkingDir
	if dir == "" {
		dir = "/"
	}
	l := launch{
		name: pod.Namespace + "/" + pod.Name, root: w.root, img: img, args: args, env: env, dir: dir, id: id,
		log:        filepath.Join(w.logs, fmt.Sprintf("%d.log", run)),
		kubeconfig: func() (string, error) { return w.kubeconfig(pod) },
	}
	if !pod.Spec.HostNetwork {
		l.hostname = pod.Name
	}
	for _, m := range c.VolumeMounts {
		l.mounts = append(l.mounts, m.MountPath)
	}
	p, kind := must.Get2(w.node.sandbox.start(ctx, l))
	if kind == plainSandbox {
		w.event(corev1.EventTypeWarning, "NoSandbox", "This machine allows neither chroot nor user namespaces: the container sees the machine's files")
	}
	return p, nil
}

const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// kubeconfig writes a kubeconfig that replaces the in-cluster configuration for a
// process without its own root directory: the paths of the in-cluster configuration are
// fixed.
func (w *worker) kubeconfig(pod *corev1.Pod) (string, error) {
	dir := filepath.Join(w.root, serviceAccountDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil // the Pod mounts no service account token
	} else if err != nil {
		return "", err
	}
	host, port := w.node.o.ControlPlane.APIServer()
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: in-cluster
  cluster: {server: "https://%s:%d", certificate-authority: %q}
users:
- name: pod
  user: {tokenFile: %q}
contexts:
- name: in-cluster
  context: {cluster: in-cluster, user: pod, namespace: %q}
current-context: in-cluster
`, host, port, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token"), pod.Namespace)
	path := filepath.Join(filepath.Dir(w.root), "in-cluster.kubeconfig")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// set changes the state and wakes the reporter.
func (w *worker) set(change func(*containerState)) {
	w.mu.Lock()
	change(&w.state)
	w.mu.Unlock()
	w.notify()
}

func (w *worker) wait(why refusal) {
	w.set(func(s *containerState) {
		if s.terminated != nil {
			s.last, s.terminated = s.terminated, nil
		}
		s.waiting, s.running, s.ready, s.started = &why, time.Time{}, false, false
	})
}

// logFile returns the log of the latest run.
func (w *worker) logFile() (string, bool) {
	entries, err := os.ReadDir(w.logs)
	if err != nil || len(entries) == 0 {
		return "", false
	}
	return filepath.Join(w.logs, fmt.Sprintf("%d.log", len(entries)-1)), true
}

func (w *worker) pid() (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return 0, false
	}
	return w.process.PID(), true
}
