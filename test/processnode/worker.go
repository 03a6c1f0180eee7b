// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// worker runs one Pod from its binding to its end.
type worker struct {
	node  *Node
	podIP string
	root  string // the container's root directory
	logs  string

	// binary is the program that runs instead of the image; its path in the container is program. uid is the
	// container's user.
	binary, program string
	uid, gid        int64
	token           string             // token of the service account
	written         map[string]payload // content of the mounted volumes, by directory

	// life is cancelled to end the Pod.
	life    context.Context
	end     context.CancelFunc
	changed chan struct{} // wakes report

	mu       sync.Mutex
	pod      *corev1.Pod
	powerOff bool // the node was stopped: no grace period
	silent   bool // the Pod no longer exists in the API, or the node was stopped: no last status
	status   corev1.ContainerStatus
	process  *child.Process
}

const (
	volumePeriod = time.Second
	retryPeriod  = time.Second
	firstBackoff = time.Second // the kubelet's is 10 s
	maxBackoff   = 30 * time.Second
)

func newWorker(ctx context.Context, n *Node, pod *corev1.Pod) *worker {
	dir := filepath.Join(n.dir, "pods", string(pod.UID))
	w := &worker{
		node: n, pod: pod, podIP: n.o.Address, changed: make(chan struct{}, 1),
		root: filepath.Join(dir, "root"), logs: filepath.Join(dir, "log"),
	}
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	if !pod.Spec.HostNetwork {
		w.podIP = NewPodIP(ctx)
	}
	w.status.Name, w.status.Image = w.container().Name, w.container().Image
	w.wait("ContainerCreating", "")
	w.update(pod)
	return w
}

// latest returns the Pod as last received from the API server.
func (w *worker) latest() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	w.pod = pod
	w.mu.Unlock()
	w.notify() // the node lifecycle controller sets Ready to False when the node's heartbeats were late
	if pod.DeletionTimestamp != nil {
		w.end()
	}
}

// abandon ends a Pod that no longer exists in the API, or whose node has lost power.
func (w *worker) abandon(powerOff bool) {
	w.mu.Lock()
	w.silent, w.powerOff = true, powerOff
	w.mu.Unlock()
	w.end()
}

func (w *worker) run(ctx context.Context) {
	defer removeAll(filepath.Dir(w.root))
	reports := sync.WaitGroup{}
	reports.Go(w.report)
	w.supervise(w.life) //nolint:contextcheck // the Pod's life is not bound to ctx: its process gets a grace period
	w.notify()
	<-w.life.Done() // the object of a completed Pod remains until it is deleted
	reports.Wait()
	w.mu.Lock()
	silent, pod := w.silent, w.pod
	w.mu.Unlock()
	if silent {
		return
	}

	// A kubelet does the same when the containers of a deleted Pod have ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestLimit)
	defer cancel()
	_ = w.publish(ctx)
	_ = w.node.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

// supervise runs and restarts the container until the Pod ends or has completed according to its restart policy.
func (w *worker) supervise(ctx context.Context) {
	if !w.prepare(ctx) {
		return
	}

	refreshed := sync.WaitGroup{}
	defer refreshed.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	refreshed.Go(func() {
		for sleep(ctx, volumePeriod) {
			_ = must.Catch(func() { w.mount(ctx) }) // the mount is retried after volumePeriod
		}
	})

	backoff := firstBackoff
	for run := 0; ; run++ {
		code := w.runOnce(ctx, run)
		policy := w.latest().Spec.RestartPolicy
		if ctx.Err() != nil ||
			policy == corev1.RestartPolicyNever ||
			policy == corev1.RestartPolicyOnFailure && code == 0 {
			return
		}
		if run == 0 {
			continue // the first restart is immediate
		}
		w.wait("CrashLoopBackOff",
			fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", backoff, w.container().Name, w.name()))
		if !sleep(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// prepare finds the image and the user and mounts the volumes. It retries mounts until they succeed or the Pod ends.
// Errors that a retry cannot resolve are final.
func (w *worker) prepare(ctx context.Context) (ok bool) {
	if reason, message := w.refuses(); reason != "" {
		w.wait(reason, message)
		w.warn("Failed", "Error: "+reason+": "+message)
		<-ctx.Done()
		return false
	}

	for last := ""; ; {
		err := must.Catch(func() {
			w.buildRoot()
			w.written = map[string]payload{}
			w.mount(ctx)
			w.sealRoot()
		})
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		if err.Error() != last {
			last = err.Error()
			w.warn("FailedMount", last)
		}
		if !sleep(ctx, retryPeriod) {
			return false
		}
	}
}

// imageUser is the user of every image, as in the Dockerfile.
const imageUser int64 = 65532

// refuses finds the image and the user. If a process node cannot run the Pod, it returns the reason and message as a
// kubelet would.
func (w *worker) refuses() (reason, message string) {
	spec, c := &w.latest().Spec, w.container()
	repository := repositoryOf(c.Image)
	w.binary, w.program = w.node.o.Images[c.Image], "/"+path.Base(repository)
	if w.binary == "" {
		w.binary = w.node.o.Images[repository]
	}

	inPod, own := ptr.Deref(spec.SecurityContext, corev1.PodSecurityContext{}),
		ptr.Deref(c.SecurityContext, corev1.SecurityContext{})
	w.uid, w.gid = ptr.Deref(or(own.RunAsUser, inPod.RunAsUser), imageUser),
		ptr.Deref(or(own.RunAsGroup, inPod.RunAsGroup), imageUser)
	switch {
	case w.binary == "":
		return "ErrImageNeverPull", fmt.Sprintf("process nodes pull no images and run only: %s; not %s",
			strings.Join(slices.Sorted(maps.Keys(w.node.o.Images)), ", "), c.Image)
	case w.uid == 0 && ptr.Deref(or(own.RunAsNonRoot, inPod.RunAsNonRoot), false):
		return "CreateContainerConfigError", "container's runAsUser breaks non-root policy"
	case len(spec.InitContainers) > 0, len(spec.Containers) > 1, len(c.EnvFrom) > 0, c.Lifecycle != nil:
		return "CreateContainerConfigError",
			"process nodes run Pods of one container, without envFrom and lifecycle hooks"
	}

	return "", ""
}

func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// repositoryOf returns an image reference without tag and digest.
func repositoryOf(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if colon := strings.LastIndex(reference, ":"); colon > strings.LastIndex(reference, "/") {
		reference = reference[:colon]
	}
	return reference
}

func (w *worker) container() *corev1.Container { return &w.latest().Spec.Containers[0] }

func (w *worker) name() string { p := w.latest(); return p.Namespace + "/" + p.Name }

func (w *worker) warn(reason, message string) {
	w.node.recorder.Event(w.latest(), corev1.EventTypeWarning, reason, message)
}

// logFile returns the log of the latest run.
func (w *worker) logFile() (string, bool) {
	entries, err := os.ReadDir(w.logs)
	if err != nil || len(entries) == 0 {
		return "", false
	}
	return filepath.Join(w.logs, fmt.Sprintf("%d.log", len(entries)-1)), true
}

// sleep waits for d. It returns false if the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
