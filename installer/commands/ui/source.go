// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui reads what the page of `csccm ui` shows, and keeps it up to date: Kubernetes by watches, CloudStack by few
// whole lists, doctor's checks from time to time. It only reads. Package picture turns what was read into a snapshot.
package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/model"
)

// CloudStack is what is read there beside what plans need; *cloudapi.Client has it.
type CloudStack interface {
	ListNetworks(ctx context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error)
	ListPortForwardings(ctx context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error)
	ReadQuota(ctx context.Context, projectID string) (*cloudapi.Quota, error)
}

// Planner plans Services as the controller does.
type Planner struct {
	*service.Previewer
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
	// Within is how long a source may take for an answer before the page says that it does not answer; 0 for 8 seconds.
	Within time.Duration
	Clock  clock.WithTicker
}

const (
	// answerWithin is the default of Options.Within.
	answerWithin = 8 * time.Second
	// probeEvery is the time between two questions to the API server.
	probeEvery = 5 * time.Second
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
	due     chan struct{} // CloudStack is worth reading again
	arrived chan struct{} // something was read

	mu    sync.Mutex // of what follows
	clean func(string) string
	shown model.Snapshot
	// What was read last. A read that fails changes nothing but the state of its source.
	kube, cloud model.Source
	lists       *lists
	report      *check.Report
	facts       *check.Facts
	findings    map[string]check.Result // the last known result of each check, by code
	calls       rates

	// Of the goroutine that reads CloudStack.
	plans   plans
	noQuota bool // the role may not read the account's limits
}

// lists are what CloudStack answered last.
type lists struct {
	picture.Cloud
	drifts   []model.Entry
	planning bool // the first plans are being made
}

// New makes a source that Run fills.
func New(o Options) *Source {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Within = cmp.Or(o.Within, answerWithin)
	s := &Source{
		o: o, watched: newWatched(o), changed: make(chan struct{}, 1), due: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		clean: remember(o.Clean), findings: map[string]check.Result{},
		kube: model.Source{Name: "Kubernetes", State: model.SourceConnecting, Kinds: []model.Kind{model.KindService, model.KindNode}},
		cloud: model.Source{Name: "CloudStack", State: model.SourceConnecting, Kinds: []model.Kind{
			model.KindAddress, model.KindRule, model.KindForward, model.KindVM, model.KindNetwork,
		}},
	}
	if o.Planner == nil {
		m := missing("objects", o.NoCloudStack)
		s.cloud.State, s.cloud.Reason, s.cloud.Remedy = model.SourceFailing, m.Reason, m.Remedy
	}
	s.publish()
	return s
}

// Changed receives after each change.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Snapshot returns what was read last; it never waits.
func (s *Source) Snapshot(context.Context) (model.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown, nil
}

// Run keeps the snapshot up to date until ctx ends. Kubernetes, CloudStack and doctor's checks are read each in their own time: one
// that hangs does not keep the others from being shown.
func (s *Source) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, part := range []func(context.Context){s.watched.run, s.probe, s.inspect, s.readCloudStack} {
		all.Go(func() { part(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.arrived:
		case <-s.watched.changed:
			if !s.wait(ctx, quiet, nil) {
				return
			}
			select {
			case <-s.watched.changed:
			default:
			}
			signal(s.due)
		}
		s.publish()
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait waits for a time, or for a signal; false if ctx has ended.
func (s *Source) wait(ctx context.Context, d time.Duration, or <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.o.Clock.After(d):
	case <-or:
	}
	return true
}

// read calls read with a limit of time, and notes how it went.
func (s *Source) read(ctx context.Context, of *model.Source, limit time.Duration, read func(context.Context) error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := read(within)
	if ctx.Err() != nil {
		return
	}
	if err != nil && within.Err() != nil {
		err = fmt.Errorf("%s did not answer within %s", of.Name, limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := of.State
	if err != nil {
		of.State, of.Reason, of.Remedy = model.SourceFailing, err.Error(), remedy(err)
	} else {
		of.State, of.Reason, of.Remedy, of.Answered = model.SourceOK, "", "", s.o.Clock.Now().UTC()
	}
	if was == model.SourceOK && err == nil { // only ages have changed: the objects are not gone through for them
		s.shown.Controller = s.renewed(s.shown.Controller)
		s.shown.Sources = slices.Clone(s.shown.Sources)
		i := slices.IndexFunc(s.shown.Sources, func(x model.Source) bool { return x.Name == of.Name })
		s.shown.Sources[i].Answered = of.Answered
		signal(s.changed)
		return
	}
	signal(s.arrived)
}

// renewed is the controller with the age that its lease has now: an old one would say that nobody leads.
func (s *Source) renewed(c *model.Controller) *model.Controller {
	if now := picture.Controller(nil, list[coordinationv1.Lease](s.watched.stores["Leases"])); c != nil && now != nil {
		out := *c
		out.Renewed = now.Renewed
		return &out
	}
	return c
}

// probe asks the API server whether it is there: a watch on a server that hangs shows no error for a minute.
func (s *Source) probe(ctx context.Context) {
	for {
		s.read(ctx, &s.kube, s.o.Within, func(ctx context.Context) error {
			_, err := discovery.ToDiscoveryInterfaceWithContext(s.o.Kube.Discovery()).ServerVersionWithContext(ctx)
			return err
		})
		if !s.wait(ctx, probeEvery, nil) {
			return
		}
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
		return picture.Of(&f), ctx.Err()
	}
	f.Missing = slices.DeleteFunc(f.Missing, func(m model.Missing) bool { return m.Part == "plans" })
	round, err := s.readLists(ctx, &f)
	if err == nil {
		err = s.plans.make(ctx, round, s.o.Planner.Settings, &f)
	}
	if err != nil {
		f.Missing = append(f.Missing, missing("objects", err), missing("plans", err))
	}
	return picture.Of(&f), ctx.Err()
}

// inspect runs doctor's checks again and again.
func (s *Source) inspect(ctx context.Context) {
	if !s.watched.synced(ctx) {
		return
	}
	for {
		report, facts := s.o.Inspect(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.report, s.facts = &report, facts
		for _, r := range report.Checks {
			if r.Outcome != check.Unknown && r.Outcome != check.Skipped || s.findings[r.Code].Code == "" {
				s.findings[r.Code] = r
			}
		}
		s.mu.Unlock()
		signal(s.arrived)
		if !s.wait(ctx, max(inspectEvery, s.o.Interval), nil) {
			return
		}
	}
}

// publish makes what was read last the snapshot that is shown.
func (s *Source) publish() {
	f := s.watched.facts()
	s.mu.Lock()
	defer s.mu.Unlock()
	f.At, f.Title, f.Options, f.Clean = s.o.Clock.Now(), s.o.Title, s.o.Flags, s.clean
	f.Sources = []model.Source{s.kube, s.cloud}
	f.Members = map[string][]string{}
	if s.report == nil {
		f.Missing = append(f.Missing, model.Missing{Part: "checks", Reason: "the checks have not ended yet", Remedy: "wait some seconds"})
	} else {
		inspected := picture.OfInspection(s.facts, s.report)
		f.Checks, f.Kubelets, f.Members, f.Pods, f.Next = inspected.Checks, inspected.Kubelets, inspected.Members, inspected.Pods, inspected.Next
		f.Findings = slices.Collect(maps.Values(s.findings))
	}
	f.Calls = s.calls.shown
	if s.calls.missing != nil {
		f.Missing = append(f.Missing, *s.calls.missing)
	}
	if l := s.lists; l != nil {
		members := f.Members
		f.Cloud, f.Seen = l.Cloud, append(f.Seen, l.drifts...)
		maps.Copy(members, l.Members)
		f.Members = members
		if l.Quota != nil {
			f.Sources[1].Addresses, f.Sources[1].MaxAddresses = l.Quota.Used, l.Quota.Max
		}
		if l.planning {
			f.Missing = append(f.Missing, model.Missing{Part: "plans", Reason: "the Services are being planned", Remedy: "wait some seconds"})
		}
	} else {
		f.Missing = append(f.Missing, model.Missing{Part: "plans", Reason: cmp.Or(s.cloud.Reason, "CloudStack has not answered yet"), Remedy: s.cloud.Remedy})
	}
	snapshot := picture.Of(&f)
	_, differs := model.Diff(s.shown, snapshot)
	s.shown = snapshot
	if differs {
		signal(s.changed)
	}
}

// readCloudStack reads CloudStack's lists and makes plans from them, again and again. What it reads replaces what was read before
// only where all of it was read.
func (s *Source) readCloudStack(ctx context.Context) {
	if !s.watched.synced(ctx) {
		return
	}
	for {
		s.readCalls(ctx)
		if s.o.Planner != nil {
			f := s.watched.facts()
			f.At = s.o.Clock.Now()
			var round *service.Round
			s.read(ctx, &s.cloud, s.o.Within, func(ctx context.Context) (err error) {
				round, err = s.readLists(ctx, &f)
				return err
			})
			if round != nil {
				s.store(&f, s.plans.byName == nil)
				// A plan asks for the members of each rule that may have changed.
				s.read(ctx, &s.cloud, s.o.Within+time.Duration(len(f.Services))*time.Second, func(ctx context.Context) error {
					f.Members = map[string][]string{}
					return s.plans.make(ctx, round, s.o.Planner.Settings, &f)
				})
				s.store(&f, false)
			}
		}
		if !s.wait(ctx, s.o.Interval, s.due) {
			return
		}
	}
}

// store makes what was read the last that is known. Without new plans the last ones are kept.
func (s *Source) store(f *picture.Facts, planning bool) {
	l := &lists{Cloud: f.Cloud, drifts: slices.Clone(s.plans.drifts), planning: planning}
	s.mu.Lock()
	if l.Plans == nil && s.lists != nil {
		l.Plans, l.Members = s.lists.Plans, s.lists.Members
	}
	s.lists = l
	s.mu.Unlock()
	signal(s.arrived)
}

// readLists reads whole lists of CloudStack. The round is of those who plan from the same lists.
func (s *Source) readLists(ctx context.Context, f *picture.Facts) (*service.Round, error) {
	round, found, err := s.readProject(ctx, f)
	if cloudstack.IsKind(err, cloudstack.KindAuth) && s.o.Reconnect != nil {
		if err = s.reconnect(ctx); err == nil {
			round, found, err = s.readProject(ctx, f)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read CloudStack: %w", err)
	}
	f.VMs, f.Addresses, f.Rules, f.Orphans = found.VMs, found.Addresses, found.Rules, found.Orphans
	project, err := s.o.Planner.ProjectID(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	if f.Networks, err = s.o.CloudStack.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: project}); err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	if f.Forwards, err = s.o.CloudStack.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project}); err != nil {
		return nil, fmt.Errorf("list port forwarding rules: %w", err)
	}
	if !s.noQuota { // the minimal role may not ask; without an answer the page shows no limit
		quota, err := s.o.CloudStack.ReadQuota(ctx, project)
		if s.noQuota = cloudstack.IsKind(err, cloudstack.KindNotPermitted); err == nil && quota.PublicIPs.Max != cloudapi.Unlimited {
			f.Quota = &quota.PublicIPs
		}
	}
	return round, nil
}

// readProject reads the lists that plans share.
func (s *Source) readProject(ctx context.Context, f *picture.Facts) (*service.Round, service.Project, error) {
	f.ClusterID = s.o.Planner.ClusterID()
	round := s.o.Planner.Round(s.o.Clock.Now())
	project, err := round.Project(ctx)
	return round, project, err
}

// readCalls reads the metrics of the controller's Pods, which doctor has found.
func (s *Source) readCalls(ctx context.Context) {
	s.mu.Lock()
	facts, calls := s.facts, s.calls
	s.mu.Unlock()
	if facts == nil {
		return
	}
	within, cancel := context.WithTimeout(ctx, s.o.Within)
	defer cancel()
	calls = calls.read(within, s.o, facts.Pods, s.o.Clock.Now())
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	s.calls = calls
	s.mu.Unlock()
	signal(s.arrived)
}

// reconnect replaces the connection to CloudStack by one with the credentials of now. Without them the old one stays.
func (s *Source) reconnect(ctx context.Context) error {
	api, planner, err := s.o.Reconnect(ctx)
	if err != nil {
		return fmt.Errorf("CloudStack refuses the keys in use, and there are no others: %w", err)
	}
	s.o.CloudStack, s.o.Planner = api, planner
	s.mu.Lock()
	s.clean = remember(s.o.Clean)
	s.mu.Unlock()
	return nil
}

// missing says why a part could not be read, and what to do if the error knows.
func missing(part string, err error) model.Missing {
	err = cmp.Or(err, errors.New("unknown"))
	return model.Missing{Part: part, Reason: err.Error(), Remedy: remedy(err)}
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
		if service.Handles(&services[i]) {
			out = append(out, &services[i])
		}
	}
	return slices.Clip(out)
}
