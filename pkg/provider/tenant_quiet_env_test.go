// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// The last of Kubernetes' error handlers sleeps by the time of the previous error, which may be that of another bubble.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] } //nolint:reassign // it is a setting of the process

// inMemory sends requests to a handler without a socket: inside a synctest bubble, nobody waits for a real network.
type inMemory struct{ http.Handler }

// RoundTrip turns an aborted handler into a cut connection, as a server does.
func (m inMemory) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // that very value is what a handler panics with
				panic(p)
			}
			resp, err = nil, fmt.Errorf("the connection was cut")
		}
	}()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Result(), nil
}

// bubble is a cluster inside a synctest bubble: the framework's service controller with its informers on a fake API
// server, our provider, and a simulated CloudStack. Time is the bubble's.
type bubble struct {
	t    *testing.T
	sim  *simulator.Simulator
	kube *fake.Clientset
	p    *Provider
	stop func()

	mu     sync.Mutex
	events []string // one entry for each write of an Event, repeats included
}

// inBubble runs a test in a bubble whose CloudStack is lbWorld after change.
func inBubble(t *testing.T, change func(string) string, test func(*bubble)) {
	t.Helper()
	inBubbleWith(t, simulator.Options{}, change, test)
}

// inBubbleWith is inBubble with a CloudStack of one's own; its world is set here.
func inBubbleWith(t *testing.T, o simulator.Options, change func(string) string, test func(*bubble)) {
	if raceDetector {
		t.Skip("the framework's service controller has a data race of its own: serviceCache.allServices reads what processServiceCreateOrUpdate writes")
	}
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		text := lbWorld
		if change != nil {
			text = change(text)
		}
		world, err := simulator.LoadWorld(strings.NewReader(text))
		require.NoError(t, err)
		b := &bubble{t: t, kube: newKube()}
		o.World = world
		b.sim, err = simulator.New(o)
		require.NoError(t, err)
		defer b.sim.Close()
		for _, verb := range []string{"create", "patch"} {
			b.kube.PrependReactor(verb, "events", b.countEvent)
		}
		for _, n := range nodesNamed("w1", "w2") {
			_, err := b.kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		b.start()
		defer func() { b.stop() }()
		time.Sleep(time.Minute) // what a start reads and writes is none of a Service's
		test(b)
	})
}

// countEvent notes a written Event.
func (b *bubble) countEvent(a clienttesting.Action) (bool, runtime.Object, error) {
	what := a.GetVerb()
	switch a := a.(type) {
	case clienttesting.CreateAction:
		if e, ok := a.GetObject().(*corev1.Event); ok {
			what = e.Reason + ": " + e.Message
		}
	case clienttesting.PatchAction:
		what = "again " + a.GetName()
	}
	b.mu.Lock()
	b.events = append(b.events, what)
	b.mu.Unlock()
	return false, nil, nil
}

// start runs the controllers; b.stop ends them and waits until they have ended.
func (b *bubble) start() {
	ctx, cancel := context.WithCancel(b.t.Context())
	cfg := cloudstack.DefaultConfig()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey, cfg.ClusterID = "http://cloudstack.test/client/api", testAPIKey, testSecret, "test"
	cfg.RateLimit = 0 // who waits for a mutex keeps the bubble's time from going on, and one is held during a call
	o := DefaultOptions()
	o.DriftPeriod = 24 * time.Hour // no Service causes the rounds that look for orphans
	var err error
	b.p, err = New(&cfg, o, cloudstack.WithTransport(inMemory{b.sim.Handler()}))
	require.NoError(b.t, err)
	factory := informers.NewSharedInformerFactory(b.kube, 0)
	b.p.start(b.kube, ctx.Done())
	b.p.SetInformers(factory)
	c, err := servicecontroller.New(b.p, b.kube, factory.Core().V1().Services(), factory.Core().V1().Nodes(), "kubernetes", nil)
	require.NoError(b.t, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go c.Run(ctx, 10, controllersmetrics.NewControllerManagerMetrics("test"))
	b.stop = func() {
		cancel()
		factory.Shutdown()
		synctest.Wait()
	}
}

// service makes a Service that waits for an address.
func (b *bubble) service(namespace, name string, change ...func(*corev1.Service)) {
	b.t.Helper()
	svc := newService([]int{80}, append(change, func(s *corev1.Service) {
		s.Namespace, s.Name = namespace, name
		s.UID = types.UID("uid-of-" + namespace + "-" + name)
	})...)
	_, err := b.kube.CoreV1().Services(namespace).Create(b.t.Context(), svc, metav1.CreateOptions{})
	require.NoError(b.t, err)
}

func (b *bubble) get(namespace, name string) *corev1.Service {
	b.t.Helper()
	svc, err := b.kube.CoreV1().Services(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	require.NoError(b.t, err)
	return svc
}

// edit changes a Service as its owner does.
func (b *bubble) edit(namespace, name string, change func(*corev1.Service)) {
	b.t.Helper()
	svc := b.get(namespace, name)
	change(svc)
	_, err := b.kube.CoreV1().Services(namespace).Update(b.t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(b.t, err)
}

// remove deletes a Service as its owner does: the object goes when no finalizer is left.
func (b *bubble) remove(namespace, name string) {
	b.t.Helper()
	b.edit(namespace, name, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		if len(b.get(namespace, name).Finalizers) == 0 {
			require.NoError(b.t, b.kube.CoreV1().Services(namespace).Delete(b.t.Context(), name, metav1.DeleteOptions{}))
			return
		}
	}
	b.t.Fatalf("the finalizer of %s/%s stays", namespace, name)
}

func (b *bubble) served(namespace, name string) bool {
	return len(b.get(namespace, name).Status.LoadBalancer.Ingress) > 0
}

// count returns the calls to CloudStack and the Events since the last count, and forgets them.
func (b *bubble) count() (calls, events []string) {
	synctest.Wait()
	for _, c := range b.sim.Ledger().Calls() {
		if c.Caller == "ccm" {
			calls = append(calls, c.Command)
		}
	}
	b.sim.Ledger().Reset()
	b.mu.Lock()
	defer b.mu.Unlock()
	events, b.events = b.events, nil
	return calls, events
}

// tally shows how often each entry is there.
func tally(list []string) string {
	n := map[string]int{}
	for _, x := range list {
		n[x]++
	}
	var out []string
	for x, k := range n {
		out = append(out, fmt.Sprintf("%dx %s", k, x))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// remembered names what the controller still remembers of Services.
func (b *bubble) remembered() []string {
	synctest.Wait()
	lb, out := b.p.lb, []string{}
	note := func(what string, n int) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%s: %d", what, n))
		}
	}
	b.p.records.mu.Lock()
	note("records", len(b.p.records.byUID))
	b.p.records.mu.Unlock()
	lb.mu.Lock()
	note("seen", len(lb.seen))
	note("shown", len(lb.shown))
	note("synced", len(lb.synced))
	note("doubtful", len(lb.doubtful))
	lb.mu.Unlock()
	note("waits", lb.backoff.Len())
	return out
}
