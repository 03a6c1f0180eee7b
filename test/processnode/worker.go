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
)

// worker runs one Pod from its binding to its end.
type worker struct {
	node  *Node
	podIP string
	root  string
	logs  string

	// life ends when the Pod is to end; done is closed when nothing of it is left.
	life     context.Context
	end      context.CancelFunc
	done     chan struct{}
	changed  chan struct{} // the status has news
	deleting chan struct{} // closed with the deletion
	once     sync.Once

	mu      sync.Mutex
	pod     *corev1.Pod
	quiet   bool // the node was switched off: no grace, no word to the API
	forced  bool // the Pod is gone from the API
	state   containerState
	process *child.Process
	volumes *volumes
}

const (
	volumePeriod = time.Second
	retryPeriod  = time.Second
	maxBackoff   = 30 * time.Second
	// steadyAfter is how long a container must run for the back-off to start anew.
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

// latest is the Pod as the API server has it.
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
	if denied { // by the node lifecycle controller, when the node's heartbeats came late
		w.news()
	}
	if pod.DeletionTimestamp != nil {
		w.once.Do(func() { close(w.deleting); w.end() })
	}
}

// remove ends a Pod that the API no longer has.
func (w *worker) remove() {
	w.mu.Lock()
	w.forced = true
	w.mu.Unlock()
	w.end()
}

// abandon ends a Pod as a power failure does.
func (w *worker) abandon() {
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	w.end()
}

func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	defer removeAll(filepath.Dir(w.root))
	reports := sync.WaitGroup{}
	reports.Go(w.report)
	finished := w.supervise(w.life) //nolint:contextcheck // the Pod's life ends by its own rules
	if finished {
		// The Pod ran to its end. Its object stays until somebody deletes it.
		w.news()
		<-w.life.Done()
	}
	reports.Wait()
	w.mu.Lock()
	silent := w.quiet || w.forced
	w.mu.Unlock()
	if silent {
		return
	}
	w.finish(ctx)
}

// finish tells the API server the last status and removes the object, as the
// kubelet does when everything of a deleted Pod has ended.
func (w *worker) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestLimit)
	defer cancel()
	if err := w.publish(ctx); err != nil {
		w.node.o.Logger.Debug("last status not written", "pod", w.pod.Name, "error", err)
	}
	pod := w.latest()
	zero := int64(0)
	err := w.node.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil {
		w.node.o.Logger.Debug("pod not removed", "pod", pod.Name, "error", err)
	}
}

// supervise runs the container again and again until the Pod ends. It is true when
// the Pod ended by itself, as its restart policy allows.
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

// prepare does everything before the first start, and tries again until it works
// or the Pod ends. Nothing that a retry cannot mend is retried.
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

func (w *worker) build(ctx context.Context, img image, pod *corev1.Pod) error {
	removeAll(w.root)
	if err := buildRoot(w.root, img, pod, w.podIP); err != nil {
		return err
	}
	if err := w.volumes.mount(ctx); err != nil {
		return err
	}
	return sealRoot(w.root, w.container())
}

func (w *worker) refreshVolumes(ctx context.Context) {
	for sleep(ctx, volumePeriod) {
		if err := w.volumes.refresh(ctx); err != nil && ctx.Err() == nil {
			w.node.o.Logger.Debug("volumes not refreshed", "pod", w.name(), "error", err)
		}
	}
}

// grace is how long the container may take to end.
func (w *worker) grace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet {
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

// news wakes the reporter.
func (w *worker) news() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// sleep is false when the context ended first.
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

// report keeps the status in the API up to date while the Pod lives.
func (w *worker) report() {
	w.news()
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
			w.node.o.Logger.Debug("status not written", "pod", w.name(), "error", err)
			if !sleep(w.life, retryPeriod) {
				return
			}
			w.news()
		}
	}
}
