// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// mostCrashPoints ends a search for the last call that changes something.
const mostCrashPoints = 40

// deletionCalls are the calls of a deletion: a single one changes something, so the controller is killed at each of them.
const deletionCalls = 4

// crashPoints creates and deletes a Service again and again. The controller is killed when CloudStack has done the k-th call
// of its work that changes something, or the k-th call of a deletion; a new one finishes it.
func crashPoints(e *env) string {
	alone := e.byItself()
	before := len(e.addresses())
	points := map[string]int{}
	for k, more := 1, true; more && k <= mostCrashPoints; k++ {
		name := fmt.Sprintf("web%d", k)
		more = false
		for _, w := range []struct {
			what        string
			begin, done func()
			addresses   int
		}{
			{"creation", func() { e.create(name, ports(80, 443)) }, func() { e.serves(e.address(name), "80", "443") }, before + 1},
			{"deletion", func() { must.OK(e.services().Delete(e.ctx, name, metav1.DeleteOptions{})) }, func() { e.gone(name) }, before},
		} {
			if w.what == "deletion" && k > deletionCalls {
				w.begin()
				w.done()
				continue
			}
			crashed, err := alone.crash(k, w.what == "deletion", w.begin, w.done)
			if now := len(e.addresses()); err == nil && now != w.addresses {
				err = fmt.Errorf("%d addresses are held, want %d", now, w.addresses)
			}
			if err != nil {
				must.Fail("killed at call %d of the %s: %w", k, w.what, err)
			}
			if crashed {
				points[w.what]++
				more = true
			}
		}
	}
	e.nothingStranded()
	return fmt.Sprintf("%d crash points of a creation, %d of a deletion, each finished by the next process", points["creation"], points["deletion"])
}

// byItself is the controller's program as a process of this machine, in the place of its Pods: it can be killed at once, and
// its next life does not wait for a lease.
type byItself struct {
	*env
	config  string // its cloud-config
	log     string
	process *child.Process
}

// byItself ends the controller's Pods and starts the program; the end of the scenario brings the Pods back.
func (e *env) byItself() *byItself {
	b := &byItself{env: e, config: filepath.Join(e.home, "cloud-config"), log: filepath.Join(e.home, "controller.log")}
	secret := must.Get(e.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(e.ctx, secretName, metav1.GetOptions{}))
	must.OK(os.WriteFile(b.config, secret.Data["cloud-config"], 0o600))
	e.cleanup(func() {
		b.kill()
		_ = os.Remove(b.config)
		e.scale(1)
	})
	e.scale(0)
	must.OK(b.start())
	return b
}

func (b *byItself) start() (err error) {
	b.process, err = child.Start(b.ctx, child.Command{
		Name: "cloudstack-ccm", Path: b.Programs.Controller, Log: b.log, Dir: b.home, Env: []string{"TMPDIR=" + b.dir},
		Args: []string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + b.config, "--kubeconfig=" + b.cluster.Kubeconfig,
			"--leader-elect=false", "--secure-port=0", "--v=1",
		},
	})
	return err
}

func (b *byItself) kill() {
	if b.process != nil {
		b.process.Stop(0)
	}
}

// crash kills the program at the k-th call, or at the k-th that changes something unless every is set, after work has begun, and
// starts it again. It reports whether there was such a call. done waits for the end of the work.
func (b *byItself) crash(k int, every bool, begin, done func()) (crashed bool, err error) {
	dead := make(chan struct{})
	f, at := proxy.CrashAt(k, every, func() { b.kill(); close(dead) })
	undo := b.proxy.SetFault(f)
	defer undo()
	if err := must.Catch(begin); err != nil {
		return false, err
	}
	finished := make(chan error, 1)
	go func() { finished <- must.Catch(done) }()
	select {
	case err := <-finished: // fewer calls than k
		return false, err
	case <-dead:
	}
	undo()
	if err := b.start(); err != nil {
		return true, err
	}
	if err := <-finished; err != nil {
		return true, fmt.Errorf("%s: %w; the log ends with: %s", at(), err, child.Tail(b.log, 5))
	}
	return true, nil
}

// scale sets the replicas of the controller's Deployment and waits for its Pods.
func (e *env) scale(replicas int32) {
	d := e.cluster.Client.AppsV1().Deployments(metav1.NamespaceSystem)
	s := must.Get(d.GetScale(e.ctx, deployment, metav1.GetOptions{}))
	s.Spec.Replicas = replicas
	must.Get(d.UpdateScale(e.ctx, deployment, s, metav1.UpdateOptions{}))
	e.until(fmt.Sprintf("%d Pods of the controller", replicas), func() {
		now := must.Get(d.Get(e.ctx, deployment, metav1.GetOptions{}))
		selector := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(now.Spec.Selector)}
		pods := must.Get(e.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(e.ctx, selector)).Items
		must.Be(now.Status.ReadyReplicas == replicas && len(pods) == int(replicas), "%d of %d Pods are ready", now.Status.ReadyReplicas, len(pods))
	})
}
