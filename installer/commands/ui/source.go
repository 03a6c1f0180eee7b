// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui reads what the page of `csccm ui` shows, and keeps it up to date: Kubernetes by watches, CloudStack by few
// whole lists, doctor's checks from time to time. It only reads. Package picture turns what was read into a snapshot.
package ui

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/plan"
	"github.com/csccm/csccm/installer/commands/ui/picture"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/ui/model"
)

// CloudStack is what is read there beside what plans need; *cloudstack.Client has it.
type CloudStack interface {
	ListNetworks(ctx context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error)
	ListPortForwardings(ctx context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error)
}

// Planner plans Services as the controller does.
type Planner struct {
	*provider.Previewer
	Settings plan.Settings
}

// Options are what a Source needs.
type Options struct {
	Kube kubernetes.Interface
	// Namespace is the controller's.
	Namespace string
	Title     string
	// Flags are those that csccm needs to see the same cluster.
	Flags string
	// CloudStack and Planner are nil where CloudStack cannot be read; NoCloudStack says why.
	CloudStack   CloudStack
	Planner      *Planner
	NoCloudStack error
	// Reconnect reads the credentials again after CloudStack has refused those in use: somebody rotated the keys. Clean then
	// removes the new ones, too. Nil keeps the first connection.
	Reconnect func(ctx context.Context) (CloudStack, *Planner, error)
	// Inspect runs doctor's checks.
	Inspect func(ctx context.Context) (check.Report, *check.Facts)
	// Metrics returns what a Pod of the controller serves at /metrics; nil where Pods cannot be asked.
	Metrics func(ctx context.Context, pod *corev1.Pod) ([]byte, error)
	// Interval is the time between two reads of CloudStack, without a change in Kubernetes.
	Interval time.Duration
	// Clean removes secrets from text.
	Clean func(string) string
	Clock clock.WithTicker
}

const (
	// inspectEvery is the least time between the end of one run of doctor and the next: it makes a call for each rule.
	inspectEvery = time.Minute
	// quiet is how long changes of Kubernetes are collected. A Service's creation is several.
	quiet = 500 * time.Millisecond
	// replanAfter is how old the plan of a Service may be for which nothing seems to have changed: members of rules,
	// firewall rules and what else no whole list shows. A refresh makes replanMost of these again, the oldest first.
	replanAfter = 2 * time.Minute
	replanMost  = 20
	// replanBusy is the same for a Service for which something is planned: lists do not show the end of the work either.
	replanBusy = 10 * time.Second
)

// Source is what the page shows, for pkg/ui/server.
type Source struct {
	o       Options
	watched *watched
	changed chan struct{}
	clean   func(string) string

	mu     sync.Mutex
	shown  model.Snapshot
	first  chan struct{} // closed when shown is set
	report *check.Report
	facts  *check.Facts

	// of the goroutine that refreshes
	plans plans
	calls rates
}

// New makes a source that Run fills.
func New(o Options) *Source {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Source{o: o, watched: newWatched(o), changed: make(chan struct{}, 1), first: make(chan struct{}), clean: remember(o.Clean)}
	return s
}

// Changed receives after each change.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Snapshot returns what was read last. It waits for the first read.
func (s *Source) Snapshot(ctx context.Context) (model.Snapshot, error) {
	select {
	case <-ctx.Done():
		return model.Snapshot{}, ctx.Err()
	case <-s.first:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown, nil
}

// Run keeps the snapshot up to date until ctx ends.
func (s *Source) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { s.watched.run(ctx) })
	if !s.watched.synced(ctx) {
		return
	}
	inspected := make(chan struct{}, 1)
	all.Go(func() { s.inspect(ctx, inspected) })
	tick := s.o.Clock.NewTicker(s.o.Interval)
	defer tick.Stop()
	for {
		s.refresh(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		case <-inspected:
		case <-s.watched.changed:
			select {
			case <-ctx.Done():
				return
			case <-s.o.Clock.After(quiet):
			}
			drain(s.watched.changed)
		}
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Once reads everything once, for a page that does not change. Kubernetes is read as doctor reads it.
func (s *Source) Once(ctx context.Context) (model.Snapshot, error) {
	report, facts := s.o.Inspect(ctx)
	if ctx.Err() != nil {
		return model.Snapshot{}, ctx.Err()
	}
	f := picture.OfInspection(facts, &report)
	f.Title, f.Options, f.Clean = s.o.Title, s.o.Flags, s.clean
	if s.o.Planner == nil {
		f.Missing = append(f.Missing, missing("objects", s.o.NoCloudStack))
	} else {
		f.Missing = slices.DeleteFunc(f.Missing, func(m model.Missing) bool { return m.Part == "plans" })
		if round := s.readLists(ctx, &f); round != nil {
			s.plan(ctx, round, &f)
		}
	}
	return picture.Of(&f), ctx.Err()
}

// inspect runs doctor's checks again and again.
func (s *Source) inspect(ctx context.Context, done chan<- struct{}) {
	for {
		report, facts := s.o.Inspect(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.report, s.facts = &report, facts
		s.mu.Unlock()
		signal(done)
		select {
		case <-ctx.Done():
			return
		case <-s.o.Clock.After(max(inspectEvery, s.o.Interval)):
		}
	}
}

// refresh reads CloudStack and makes a new snapshot.
func (s *Source) refresh(ctx context.Context) {
	f := s.watched.facts()
	f.At, f.Title, f.Options, f.Clean = s.o.Clock.Now(), s.o.Title, s.o.Flags, s.clean
	s.mu.Lock()
	report, facts := s.report, s.facts
	s.mu.Unlock()
	f.Members = map[string][]string{}
	if report == nil {
		f.Missing = append(f.Missing, model.Missing{Part: "checks", Reason: "the checks have not ended yet", Remedy: "wait some seconds"})
	} else {
		inspected := picture.OfInspection(facts, report)
		f.Checks, f.Kubelets, f.Members = inspected.Checks, inspected.Kubelets, inspected.Members
		f.Calls = s.calls.read(ctx, s.o, facts.Pods, &f)
	}
	if round := s.readLists(ctx, &f); round != nil {
		if s.plans.byName == nil { // the first plans of many Services take a while
			early := f
			early.Missing = append(slices.Clone(f.Missing), model.Missing{Part: "plans", Reason: "the Services are being planned", Remedy: "wait some seconds"})
			s.publish(ctx, &early)
		}
		s.plan(ctx, round, &f)
	}
	s.publish(ctx, &f)
}

// publish makes what was read the snapshot that is shown.
func (s *Source) publish(ctx context.Context, f *picture.Facts) {
	snapshot := picture.Of(f)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	was := s.shown
	s.shown = snapshot
	if was.SchemaVersion == 0 {
		close(s.first)
	}
	s.mu.Unlock()
	if _, differs := model.Diff(was, snapshot); differs {
		signal(s.changed)
	}
}

// readLists reads whole lists of CloudStack. The round is of those who plan from the same lists; nil without them.
func (s *Source) readLists(ctx context.Context, f *picture.Facts) *provider.Round {
	if s.o.Planner == nil {
		for _, part := range []string{"objects", "plans"} {
			f.Missing = append(f.Missing, missing(part, s.o.NoCloudStack))
		}
		return nil
	}
	round, survey, err := s.survey(ctx, f)
	if cloudstack.IsKind(err, cloudstack.KindAuth) && s.o.Reconnect != nil {
		if err = s.reconnect(ctx); err == nil {
			round, survey, err = s.survey(ctx, f)
		}
	}
	if err != nil {
		f.Missing = append(f.Missing, missing("objects", fmt.Errorf("read CloudStack: %w", err)), missing("plans", err))
		return nil
	}
	f.VMs, f.Addresses, f.Rules, f.Orphans = survey.VMs, survey.Addresses, survey.Rules, survey.Orphans
	project, err := s.o.Planner.ProjectID(ctx)
	if err == nil {
		f.Networks, err = s.o.CloudStack.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: project})
	}
	if err != nil {
		f.Missing = append(f.Missing, missing("objects", fmt.Errorf("list networks: %w", err)))
	}
	if f.Forwards, err = s.o.CloudStack.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project}); err != nil {
		f.Missing = append(f.Missing, missing("objects", fmt.Errorf("list port forwarding rules: %w", err)))
	}
	return round
}

// survey reads the lists that plans share.
func (s *Source) survey(ctx context.Context, f *picture.Facts) (*provider.Round, provider.Survey, error) {
	f.ClusterID = s.o.Planner.ClusterID()
	living := map[string]bool{}
	for i := range f.Services {
		living[string(f.Services[i].UID)] = true
	}
	round := &provider.Round{Previewer: s.o.Planner.Previewer, Since: s.o.Clock.Now()}
	survey, err := round.Survey(ctx, func(uid string) bool { return living[uid] })
	return round, survey, err
}

// reconnect replaces the connection to CloudStack by one with the credentials of now. Without them the old one stays.
func (s *Source) reconnect(ctx context.Context) error {
	api, planner, err := s.o.Reconnect(ctx)
	if err != nil {
		return fmt.Errorf("CloudStack refuses the keys in use, and there are no others: %w", err)
	}
	s.o.CloudStack, s.o.Planner = api, planner
	s.clean = remember(s.o.Clean)
	return nil
}

// plan plans the Services for which something may have changed.
func (s *Source) plan(ctx context.Context, round *provider.Round, f *picture.Facts) {
	if err := s.plans.make(ctx, *round, s.o.Planner.Settings, f); err != nil {
		f.Missing = append(f.Missing, missing("plans", err))
	}
}

// missing says why a part could not be read, and what to do if the error knows.
func missing(part string, err error) model.Missing {
	m := model.Missing{Part: part, Reason: "unknown"}
	if err != nil {
		m.Reason = err.Error()
	}
	m.Remedy = remedy(err)
	return m
}

// remember keeps what was cleaned: most texts of a snapshot are those of the last one.
func remember(clean func(string) string) func(string) string {
	if clean == nil {
		return nil
	}
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

// handled are the Services that the controller works on.
func handled(services []corev1.Service) []*corev1.Service {
	var out []*corev1.Service
	for i := range services {
		if provider.Handles(&services[i]) {
			out = append(out, &services[i])
		}
	}
	return slices.Clip(out)
}
