// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui provides the data for the page of `csccm ui`. It watches Kubernetes, and runs the checks of csccm doctor
// repeatedly, which also read CloudStack. It only reads. Package picture turns the data into a snapshot.
package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
)

const (
	// answerWithin is how long Kubernetes or CloudStack may take before the page shows that it does not answer.
	answerWithin = 20 * time.Second
	// probeEvery is the time between two probes of the API server.
	probeEvery = 5 * time.Second
	// debounce is the minimum time between two snapshots. The creation of a Service, for example, causes several
	// changes.
	debounce = 500 * time.Millisecond
)

// Options say which cluster a page shows, and how.
type Options struct {
	Cluster     *cluster.Cluster
	Release     string
	CloudConfig string // file with credentials; "" uses the credentials of the controller
	Style       report.Style
	Interval    time.Duration // between two runs of doctor, unless a Service changes
	// Redact returns a function that removes secrets from text.
	Redact func(secrets []string) func(string) string
}

// Source provides the data of the page to pkg/ui/server.
type Source struct {
	o       Options
	flags   string        // flags with which csccm commands on the page select the same cluster
	within  time.Duration // answerWithin, or less in tests
	watched watched

	changed chan struct{} // signals that the snapshot has changed
	due     chan struct{} // signals that doctor should run again
	arrived chan struct{} // signals that new data was read

	mu      sync.Mutex // guards the fields below
	shown   model.Snapshot
	secrets []string // keys of all runs, because the keys may be rotated
	clean   func(string) string
	// Results of the last run of doctor, and the last known data. Data that a run cannot read stays as it was; only the
	// state of its source changes.
	kube, cloud model.Source
	report      *check.Report
	facts       *check.Facts
	known       *check.Facts
	findings    map[string]check.Result // by code
}

// New returns a source without data; Run reads the data.
func New(o Options) *Source {
	s := &Source{
		o:       o,
		within:  answerWithin,
		flags:   strings.TrimSpace(strings.TrimPrefix(o.Style.Commands("csccm plan"), "csccm plan")),
		changed: make(chan struct{}, 1),
		due:     make(chan struct{}, 1),
		arrived: make(chan struct{}, 1),

		clean:    remember(o.Redact(nil)),
		known:    &check.Facts{},
		findings: map[string]check.Result{},

		kube: model.Source{
			Name:  "Kubernetes",
			State: model.SourceConnecting,
			Kinds: []model.Kind{model.KindService, model.KindNode},
		},
		cloud: model.Source{Name: "CloudStack", State: model.SourceConnecting, Kinds: []model.Kind{
			model.KindAddress, model.KindRule, model.KindForward, model.KindVM, model.KindNetwork,
		}},
	}

	s.watched = s.watch(o.Cluster.Kube, o.Cluster.Namespace)
	s.publish()
	return s
}

// inspect runs the checks of csccm doctor.
func (s *Source) inspect(ctx context.Context) (check.Report, *check.Facts) {
	env, end := inspect.Connect(ctx, s.o.Cluster, s.o.Style, s.o.Release, s.o.CloudConfig, check.PhaseInstalled)
	defer end()

	return inspect.Run(ctx, env, check.Selection{
		Phase:      check.PhaseInstalled,
		AllMembers: true,
		Timeout:    s.within,
	}, nil)
}

// Changed returns a channel that receives a value after each change of the snapshot.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Snapshot returns the current snapshot without waiting.
func (s *Source) Snapshot(context.Context) (model.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown, nil
}

// Once reads everything once, for a page that does not change.
func (s *Source) Once(ctx context.Context) (model.Snapshot, error) {
	report, facts := s.inspect(ctx)
	p := picture.OfInspection(facts, &report)
	p.Options, p.Clean = s.flags, s.o.Redact([]string{facts.Config.APIKey, facts.Config.SecretKey})
	return picture.Of(&p), ctx.Err()
}

// Run keeps the snapshot up to date until ctx ends. The watches, the probe of the API server and doctor run
// independently, so that one that hangs does not block the others.
func (s *Source) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()

	parts := []func(context.Context){s.probe, s.inspectAgain}
	for _, informer := range s.watched {
		parts = append(parts, informer.RunWithContext)
	}

	for _, part := range parts {
		all.Go(func() { part(ctx) })
	}

	for sleep(ctx, time.Hour, s.arrived) {
		s.publish()
		sleep(ctx, debounce, nil)
	}
}

// Serve serves the page until ctx ends, and returns the cause of ctx.
func (s *Source) Serve(ctx context.Context, out, errOut io.Writer, open bool) error {
	at, err := server.Listen(ctx, server.Options{Source: s, Files: page.Files()})
	if err != nil {
		return err
	}

	if _, err := fmt.Fprintln(out, at.URL()); err != nil {
		return errors.Join(err, at.Close())
	}

	note := "The address works in one browser only. Press ^C to stop."
	if open {
		remove, err := server.Open(ctx, at.URL())
		defer remove()
		if err != nil {
			note = "No browser could be opened (" + strings.TrimSpace(err.Error()) +
				"): open the address yourself. Press ^C to stop."
		}
	}

	_, _ = fmt.Fprintln(errOut, note)

	running, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { s.Run(running) })
	err = at.Serve(ctx)
	stop()
	reading.Wait()
	return cmp.Or(err, context.Cause(ctx))
}

// signal sends to a channel with a buffer of one, unless a signal is already pending.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits until d has passed or the channel receives a signal. It returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration, or <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
	case <-or:
	}
	return true
}

// probe pings the API server regularly, because a watch on a server that hangs returns no error for a minute.
func (s *Source) probe(ctx context.Context) {
	for {
		within, cancel := context.WithTimeout(ctx, s.within)
		_, err := s.o.Cluster.Ping(within)
		cancel()

		if ctx.Err() != nil {
			return
		}

		s.mu.Lock()
		answered(&s.kube, err)
		s.mu.Unlock()
		signal(s.arrived)

		if !sleep(ctx, probeEvery, nil) {
			return
		}
	}
}

// inspectAgain runs doctor repeatedly. The pause between two runs is at least three times the duration of a run, but
// not longer than the interval, so that an open page causes little load.
func (s *Source) inspectAgain(ctx context.Context) {
	for {
		began := time.Now()
		report, facts := s.inspect(ctx)
		if ctx.Err() != nil {
			return
		}

		s.take(&report, facts)
		pause := min(3*time.Since(began), s.o.Interval)
		if !sleep(ctx, pause, nil) || !sleep(ctx, s.o.Interval-pause, s.due) {
			return
		}
	}
}

// take stores what a run of doctor has read.
func (s *Source) take(report *check.Report, f *check.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.report, s.facts = report, f
	for _, r := range report.Checks {
		if r.Outcome != check.Unknown && r.Outcome != check.Skipped || s.findings[r.Code].Code == "" {
			s.findings[r.Code] = r
		}
	}

	if key := f.Config.APIKey; key != "" && !slices.Contains(s.secrets, key) {
		s.secrets = append(s.secrets, key, f.Config.SecretKey)
		s.clean = remember(s.o.Redact(s.secrets))
	}

	if f.Err(check.Pods) == nil {
		s.known.Pods, s.known.Kubelets, s.known.Logs = f.Pods, f.Kubelets, f.Logs
		s.known.Controllers = f.Controllers // their arguments decide which Services are shown
	}

	err := f.NoCloudErr
	if f.NoCloud != "" {
		err = errors.New(f.NoCloud)
	}

	for _, part := range []check.Source{check.VMs, check.Networks, check.Addresses, check.AllRules, check.Forwards} {
		err = cmp.Or(err, f.Err(part))
	}

	if answered(&s.cloud, err); err == nil {
		if f.Quota != nil {
			s.cloud.Addresses, s.cloud.MaxAddresses = f.Quota.Used, f.Quota.Max
		}
		s.known.VMs = f.VMs
		s.known.Networks = f.Networks
		s.known.Addresses = f.Addresses
		s.known.AllRules = f.AllRules
		s.known.Forwards = f.Forwards
		if f.Planned != nil {
			s.known.Planned, s.known.OddMembers = f.Planned, f.OddMembers
		}
	}

	signal(s.arrived)
}

// answered sets the state of a source after a read, which failed if err is not nil.
func answered(of *model.Source, err error) {
	if err == nil {
		of.State, of.Reason, of.Remedy = model.SourceOK, "", ""
		of.Answered = time.Now().UTC()
		return
	}
	of.State, of.Reason, of.Remedy = model.SourceFailing, err.Error(), report.RemedyOf(err)
}

// publish makes a snapshot of the current data, and signals if it differs from the last one.
func (s *Source) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()

	known, w := s.known, s.watched
	known.At, known.Services, known.Nodes = time.Now(), list[corev1.Service](w), list[corev1.Node](w)
	known.Events, known.Leases = list[corev1.Event](w), list[coordinationv1.Lease](w)
	p := picture.Page{
		Facts:   known,
		Title:   picture.Title(s.o.Cluster.Context),
		Options: s.flags,
		Clean:   s.clean,
		Sources: []model.Source{s.kube, s.cloud},
	}

	incomplete := func(part, reason, remedy string) {
		p.Missing = append(p.Missing, model.Missing{Part: part, Reason: reason, Remedy: remedy})
	}
	if s.report == nil {
		incomplete("checks", "the checks are still running", "wait a few seconds")
	} else {
		p.Checks = s.report.Checks
		for _, code := range slices.Sorted(maps.Keys(s.findings)) {
			p.Findings = append(p.Findings, s.findings[code])
		}
		for source, part := range map[check.Source]string{
			check.Nodes:    "objects",
			check.Services: "objects",
			check.Events:   "timeline",
		} {
			if err := s.facts.Err(source); err != nil && s.kube.State == model.SourceOK {
				incomplete(part, err.Error(),
					"give the user the rights of docs/csccm-rights.yaml, or name another with --context")
			}
		}
	}

	if s.known.Planned == nil {
		incomplete("plans", cmp.Or(s.cloud.Reason, "CloudStack has not answered yet"),
			cmp.Or(s.cloud.Remedy, "wait a few seconds"))
	}

	snapshot := picture.Of(&p)
	_, differs := model.Diff(s.shown, snapshot)
	s.shown = snapshot
	if differs {
		signal(s.changed)
	}
}

// remember caches the results of clean, because most texts of a snapshot were also in the last one.
func remember(clean func(string) string) func(string) string {
	const most = 200_000
	known := map[string]string{}
	return func(s string) string {
		out, ok := known[s]
		if !ok {
			if len(known) > most {
				clear(known)
			}
			out = clean(s)
			known[s] = out
		}

		return out
	}
}

// watched are the informers: for Services, Nodes, Events and the leases of controllers. If the user may not watch a
// kind, its objects are listed repeatedly; if the user may not list a kind, the report of doctor says so.
type watched []cache.SharedIndexInformer

func (s *Source) watch(kube kubernetes.Interface, namespace string) watched {
	all := informers.NewSharedInformerFactory(kube, 0)
	events := informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "involvedObject.kind!=Pod" // most Events are about Pods; the page shows none of those
		}))

	w := watched{
		all.Core().V1().Services().Informer(),
		all.Core().V1().Nodes().Informer(),
		events.Core().V1().Events().Informer(),
	}
	for _, n := range slices.Compact([]string{metav1.NamespaceSystem, namespace}) {
		of := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(n))
		w = append(w, of.Coordination().V1().Leases().Informer())
	}

	note := func(o any) {
		switch o.(type) {
		case *coordinationv1.Lease: // renewed every few seconds; the next probe shows the change
			return
		case *corev1.Service: // the controller changes CloudStack next
			signal(s.due)
		}
		signal(s.arrived)
	}

	for _, informer := range w {
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    note,
			UpdateFunc: func(_, o any) { note(o) },
			DeleteFunc: note,
		})
	}

	return w
}

// list returns shallow copies of the objects of a kind, sorted by namespace and name. Callers must not change them.
func list[T any](w watched) (out []T) {
	for _, informer := range w {
		store := informer.GetStore()
		for _, key := range slices.Sorted(slices.Values(store.ListKeys())) {
			o, _, _ := store.GetByKey(key)
			if v, ok := o.(*T); ok {
				out = append(out, *v)
			}
		}
	}
	return out
}
