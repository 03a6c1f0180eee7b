// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process simulates a process of the controller. A test can kill the process at one of its calls, fence it,
// make the API server fail its writes, and delay its watches. Several processes can use one API server.
package process

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// Errors of calls that do not reach a server.
var (
	ErrKilled = errors.New("the process was killed")
	ErrFenced = errors.New("the process does not lead")
)

// Failure is how the API server fails a write.
type Failure string

// Failures of writes.
const (
	Conflict Failure = "conflict" // another client wrote first
	Broken   Failure = "error"    // the write did not happen
	Lost     Failure = "lost"     // the write happened, but its answer is lost
)

// Process is one process of the controller.
type Process struct {
	// Kube is the API server as the process reaches it.
	Kube *fake.Clientset
	// Before and After are called around each request that reaches the API server. They may be nil.
	Before func(clienttesting.Action)
	After  func(clienttesting.Action, runtime.Object)
	// Delay returns by how much an event of a watch is delayed. It may be nil.
	Delay func(resource string, event watch.Event) time.Duration

	server *fake.Clientset
	ctx    context.Context //nolint:containedctx // the life of the process
	cancel context.CancelFunc

	dead, fenced atomic.Bool

	mu        sync.Mutex
	counts    func(call string) bool // selects the calls that callsLeft counts
	callsLeft int                    // counted calls up to the one that kills the process; 0: none does
	after     bool                   // the call that kills the process takes effect, but its answer is lost
	failure   Failure
	failures  int                      // number of writes that still fail
	paused    map[string]chan struct{} // by resource; closed when its watches resume
}

// New returns a process that has just started.
func New(ctx context.Context, server *fake.Clientset) *Process {
	p := &Process{Kube: fakekube.New().Clientset, server: server, paused: map[string]chan struct{}{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.Kube.ReactionChain, p.Kube.WatchReactionChain = nil, nil
	p.Kube.AddReactor("*", "*", p.request)
	p.Kube.AddWatchReactor("*", p.watch)
	return p
}

// Context returns a context that ends when the process is killed.
func (p *Process) Context() context.Context { return p.ctx }

// Kill ends the process: its context ends, and none of its calls reaches a server any more. CloudStack jobs that it
// has started continue.
func (p *Process) Kill() {
	p.dead.Store(true)
	p.cancel()
}

// Dead reports whether the process was killed.
func (p *Process) Dead() bool { return p.dead.Load() }

// Fence ends the leadership of the process, whose writes then fail.
func (p *Process) Fence() { p.fenced.Store(true) }

// Fenced reports whether the process has lost the leadership.
func (p *Process) Fenced() bool { return p.fenced.Load() }

// WriteGate returns an error for writes of a process that does not lead, as the controller's own gate does.
func (p *Process) WriteGate() (func(), error) {
	switch {
	case p.Dead():
		return nil, ErrKilled
	case p.Fenced():
		return nil, ErrFenced
	}
	return func() {}, nil
}

// DieAt kills the process at its n-th counted call. With after, the call takes effect but its answer is lost. Calls to
// the API server are named "kube VERB RESOURCE". With n = 0 the process is not killed.
func (p *Process) DieAt(counts func(call string) bool, n int, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts, p.callsLeft, p.after = counts, n, after
}

// Doomed reports whether a later call will kill the process.
func (p *Process) Doomed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callsLeft > 0
}

// Call runs send, unless the process is dead or dies before the call.
func (p *Process) Call(call string, send func() error) error {
	p.mu.Lock()
	last := false
	if p.callsLeft > 0 && !p.Dead() && p.counts(call) {
		p.callsLeft--
		last = p.callsLeft == 0
	}
	lost := p.Dead() || last && !p.after
	p.mu.Unlock()

	if last {
		defer p.Kill()
	}
	if lost {
		return ErrKilled
	}
	err := send()
	if last {
		return ErrKilled
	}
	return err
}

// FailWrites makes the API server fail the next n writes of the process.
func (p *Process) FailWrites(how Failure, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure, p.failures = how, n
}

// Failing reports whether later writes will fail.
func (p *Process) Failing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures > 0
}

// Hold keeps changes of a resource from reaching the process until Resume.
func (p *Process) Hold(resource string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused[resource] == nil {
		p.paused[resource] = make(chan struct{})
	}
}

// Paused reports whether changes of any resource are paused.
func (p *Process) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.paused) > 0
}

// Resume delivers the paused changes.
func (p *Process) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.paused {
		close(h)
	}
	clear(p.paused)
}

// request forwards a request of the process to the API server. Writes of Events are not fenced and do not fail.
func (p *Process) request(a clienttesting.Action) (handled bool, obj runtime.Object, err error) {
	verb, resource := a.GetVerb(), a.GetResource().Resource
	write := !slices.Contains([]string{"get", "list", "watch"}, verb) && resource != "events"
	if write && p.Fenced() {
		return true, nil, ErrFenced
	}

	err = p.Call(strings.Join([]string{"kube", verb, resource}, " "), func() error {
		if err := p.fails(a, write, Conflict, Broken); err != nil {
			return err
		}
		if p.Before != nil {
			p.Before(a)
		}
		obj, err = p.server.Invokes(a, nil)
		if err != nil {
			return err
		}
		if p.After != nil {
			p.After(a, obj)
		}
		return p.fails(a, write, Lost)
	})

	return true, obj, err
}

// fails returns the error of a write that should fail in one of these ways, or nil.
func (p *Process) fails(a clienttesting.Action, write bool, ways ...Failure) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !write || p.failures == 0 || !slices.Contains(ways, p.failure) {
		return nil
	}
	p.failures--
	switch p.failure {
	case Conflict:
		return apierrors.NewConflict(schema.GroupResource{Resource: a.GetResource().Resource}, "injected",
			errors.New("injected"))
	case Lost:
		return apierrors.NewTimeoutError("injected", 1)
	default:
		return apierrors.NewInternalError(errors.New("injected"))
	}
}

// watch starts a watch whose events the process can delay and hold.
func (p *Process) watch(a clienttesting.Action) (bool, watch.Interface, error) {
	if p.Dead() {
		return true, nil, ErrKilled
	}
	from, err := p.server.InvokesWatch(a)
	if err != nil {
		return true, nil, err
	}
	w := &lateWatch{from: from, out: make(chan watch.Event), quit: make(chan struct{})}
	go p.deliver(w, a.GetResource().Resource)
	return true, w, nil
}

// lateWatch is a watch whose events are delayed.
type lateWatch struct {
	from watch.Interface
	out  chan watch.Event
	quit chan struct{}
	once sync.Once
}

// ResultChan implements watch.Interface.
func (w *lateWatch) ResultChan() <-chan watch.Event { return w.out }

// Stop implements watch.Interface.
func (w *lateWatch) Stop() {
	w.once.Do(func() {
		close(w.quit)
		w.from.Stop()
	})
}

// deliver delivers events in order, after their delay, and only while their resource is not paused.
func (p *Process) deliver(w *lateWatch, resource string) {
	defer close(w.out)
	for {
		var event watch.Event
		select {
		case <-w.quit:
			return
		case e, ok := <-w.from.ResultChan():
			if !ok {
				return
			}
			event = e
		}
		if p.Delay != nil {
			time.Sleep(p.Delay(resource, event))
		}

		p.mu.Lock()
		paused := p.paused[resource]
		p.mu.Unlock()
		if paused != nil {
			select {
			case <-w.quit:
				return
			case <-paused:
			}
		}

		select {
		case <-w.quit:
			return
		case w.out <- event:
		}
	}
}
