// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// worker runs one Pod from its binding to its end.
type worker struct {
	node  *Node
	podIP string
	root  string
	logs  string

	// life is cancelled to end the Pod; done is closed when its process and files are removed.
	life     context.Context
	end      context.CancelFunc
	done     chan struct{}
	changed  chan struct{} // wakes report
	deleting chan struct{} // closed when the Pod has a deletion timestamp
	once     sync.Once

	mu       sync.Mutex
	pod      *corev1.Pod
	powerOff bool // the node was stopped: no grace period, no last status
	removed  bool // the Pod no longer exists in the API
	state    containerState
	process  *child.Process
	volumes  *volumes
}

const (
	volumePeriod = time.Second
	retryPeriod  = time.Second
	maxBackoff   = 30 * time.Second
	// steadyAfter is how long a container must run until the back-off is reset.
	steadyAfter = 10 * time.Minute
)

func newWorker(ctx context.Context, n *Node, pod *corev1.Pod) *worker {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	w := &worker{
		node: n, pod: pod, life: life, end: end,
		root: n.path("pods", string(pod.UID), "root"), logs: n.path("pods", string(pod.UID), "log"),
		done: make(chan struct{}), changed: make(chan struct{}, 1), deleting: make(chan struct{}),
		podIP: n.o.Address,
	}
	if !pod.Spec.HostNetwork {
		w.podIP = NewPodIP(ctx)
	}
	w.state = containerState{waiting: &refusal{"ContainerCreating", ""}}
	if pod.DeletionTimestamp != nil {
		w.update(pod)
	}
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
	denied := w.state.ready && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue
	})
	w.mu.Unlock()
	if denied { // the node lifecycle controller does that when the node's heartbeats were late
		w.notify()
	}
	if pod.DeletionTimestamp != nil {
		w.once.Do(func() { close(w.deleting); w.end() })
	}
}

// remove ends a Pod that no longer exists in the API.
func (w *worker) remove() {
	w.mu.Lock()
	w.removed = true
	w.mu.Unlock()
	w.end()
}

// abandon ends a Pod as a power failure would.
func (w *worker) abandon() {
	w.mu.Lock()
	w.powerOff = true
	w.mu.Unlock()
	w.end()
}

func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	defer removeAll(filepath.Dir(w.root))
	reports := sync.WaitGroup{}
	reports.Go(w.report)
	finished := w.supervise(w.life) //nolint:contextcheck // the Pod's life is not bound to ctx: its process gets a grace period
	if finished {
		// The Pod has completed. Its object remains until it is deleted.
		w.notify()
		<-w.life.Done()
	}
	reports.Wait()
	w.mu.Lock()
	silent := w.powerOff || w.removed
	w.mu.Unlock()
	if silent {
		return
	}
	w.finish(ctx)
}

// finish writes the last status and removes the Pod object, as the kubelet does when
// the containers of a deleted Pod have ended.
func (w *worker) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestLimit)
	defer cancel()
	_ = w.publish(ctx)
	pod := w.latest()
	zero := int64(0)
	_ = w.node.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

// supervise runs and restarts the container until the Pod ends. It reports whether the
// Pod has completed by its restart policy.
func (w *worker) supervise(ctx context.Context) (finished bool) {
	img, id, ok := w.prepare(ctx)
	if !ok {
		return false
	}
	refreshed := sync.WaitGroup{}
	defer refreshed.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	refreshed.Go(func() { w.refreshVolumes(ctx) })

	backoff := w.node.o.RestartBackoff
	for run := 0; ; run++ {
		started := time.Now()
		code := w.runOnce(ctx, img, id, run)
		if ctx.Err() != nil {
			return false
		}
		policy := w.latest().Spec.RestartPolicy
		if policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && code == 0 {
			return true
		}
		if time.Since(started) > steadyAfter {
			backoff = w.node.o.RestartBackoff
		}
		if run > 0 {
			// The first restart is immediate.
			w.wait(refusal{"CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", backoff, w.container().Name, w.name())})
			w.event(corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", w.container().Name, w.name()))
			if !sleep(ctx, backoff) {
				return false
			}
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// prepare finds the image and the user and mounts the volumes. It retries mounts until
// they succeed or the Pod ends; errors that a retry cannot resolve are final.
func (w *worker) prepare(ctx context.Context) (image, identity, bool) {
	pod := w.latest()
	img, bad := w.node.findImage(w.container().Image)
	if bad == nil {
		bad = supported(pod)
	}
	id, badID := identityOf(pod)
	if bad == nil {
		bad = badID
	}
	if bad != nil {
		w.wait(*bad)
		w.event(corev1.EventTypeWarning, "Failed", "Error: "+bad.Error())
		<-ctx.Done()
		return img, id, false
	}
	own := os.Geteuid() == 0
	w.volumes = &volumes{node: w.node, pod: pod, podIP: w.podIP, root: w.root, id: id, own: own, tokens: map[string]token{}}
	for last := ""; ; {
		err := w.build(ctx, img, pod)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return img, id, false
		}
		if err.Error() != last {
			last = err.Error()
			w.event(corev1.EventTypeWarning, "FailedMount", last)
		}
		if !sleep(ctx, retryPeriod) {
			return img, id, false
		}
	}
	w.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q is a program of this machine", w.container().Image))
	return img, id, true
}

func (w *worker) build(ctx context.Context, img image, pod *corev1.Pod) (err error) {
	defer must.Return(&err)
	removeAll(w.root)
	must.OK(buildRoot(w.root, img, pod, w.podIP))
	must.OK(w.volumes.mount(ctx))
	return sealRoot(w.root, w.container())
}

func (w *worker) refreshVolumes(ctx context.Context) {
	for sleep(ctx, volumePeriod) {
		_ = w.volumes.refresh(ctx) // the next try is soon
	}
}

// grace returns the termination grace period.
func (w *worker) grace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.powerOff {
		return 0
	}
	seconds := int64(30)
	set(&seconds, w.pod.Spec.TerminationGracePeriodSeconds)
	set(&seconds, w.pod.DeletionGracePeriodSeconds)
	return time.Duration(seconds) * time.Second
}

func (w *worker) container() *corev1.Container { return &w.latest().Spec.Containers[0] }

func (w *worker) name() string { p := w.latest(); return p.Namespace + "/" + p.Name }

func (w *worker) event(kind, reason, message string) {
	w.node.recorder.Event(w.latest(), kind, reason, message)
}

// notify wakes report.
func (w *worker) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// sleep waits for d and returns false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// report writes the status to the API whenever it changes, until the Pod ends.
func (w *worker) report() {
	w.notify()
	for {
		select {
		case <-w.life.Done():
			return
		case <-w.changed:
		}
		ctx, cancel := context.WithTimeout(w.life, requestLimit)
		err := w.publish(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			if !sleep(w.life, retryPeriod) {
				return
			}
			w.notify()
		}
	}
}
