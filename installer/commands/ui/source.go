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

	"k8s.io/client-go/discovery"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/model"
)

const (
	// answerWithin is how long a source may take for an answer before the page says that it does not answer.
	answerWithin = 8 * time.Second
	// probeEvery is the time between two questions to the API server.
	probeEvery = 5 * time.Second
	// inspectEvery is the least time between the end of one run of doctor and the next: it makes a call for each rule.
	inspectEvery = time.Minute
	// quiet is how long changes of Kubernetes are collected. A Service's creation is several.
	quiet = 500 * time.Millisecond
)

// Source is what the page shows, for pkg/ui/server.
type Source struct {
	o       Options
	within  time.Duration // answerWithin, less in tests
	connect func(context.Context) (*connection, error)
	inspect func(ctx context.Context, all bool) (check.Report, *check.Facts)

	watched *watched
	changed chan struct{}
	due     chan struct{} // CloudStack is worth reading again
	arrived chan struct{} // something was read

	mu    sync.Mutex // of what follows
	clean func(string) string
	shown model.Snapshot
	// What was read last. A read that fails changes nothing but the state of its source.
	kube, cloud model.Source
	lists       *picture.Cloud // Plans is nil until the first plans are made
	report      *check.Report
	facts       *check.Facts
	findings    map[string]check.Result // the last known result of each check, by code

	// Of the goroutine that reads CloudStack.
	connection *connection // nil before the first, and after CloudStack has refused the keys
	plans      plans
	noQuota    bool // the role may not read the account's limits
}

// New makes a source that Run fills.
func New(o Options) *Source {
	s := &Source{
		o: o, within: answerWithin, watched: newWatched(o.Cluster.Kube, o.Cluster.Namespace),
		changed: make(chan struct{}, 1), due: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		clean: remember(o.Redact(nil)), findings: map[string]check.Result{},
		kube: model.Source{Name: "Kubernetes", State: model.SourceConnecting, Kinds: []model.Kind{model.KindService, model.KindNode}},
		cloud: model.Source{Name: "CloudStack", State: model.SourceConnecting, Kinds: []model.Kind{
			model.KindAddress, model.KindRule, model.KindForward, model.KindVM, model.KindNetwork,
		}},
	}
	s.connect, s.inspect = s.toCloudStack, s.doctor
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
	for _, part := range []func(context.Context){s.watched.run, s.probe, s.inspectAgain, s.readCloudStack} {
		all.Go(func() { part(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.arrived:
		case <-s.watched.changed:
			if !wait(ctx, quiet, nil) {
				return
			}
			select { // what changed meanwhile is part of it
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
func wait(ctx context.Context, d time.Duration, or <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
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
	if err != nil {
		of.State, of.Reason, of.Remedy = model.SourceFailing, err.Error(), remedy(err)
	} else {
		of.State, of.Reason, of.Remedy, of.Answered = model.SourceOK, "", "", time.Now().UTC()
	}
	signal(s.arrived)
}

// probe asks the API server whether it is there: a watch on a server that hangs shows no error for a minute.
func (s *Source) probe(ctx context.Context) {
	for {
		s.read(ctx, &s.kube, s.within, func(ctx context.Context) error {
			_, err := discovery.ToDiscoveryInterfaceWithContext(s.o.Cluster.Kube.Discovery()).ServerVersionWithContext(ctx)
			return err
		})
		if !wait(ctx, probeEvery, nil) {
			return
		}
	}
}

// Once reads everything once, for a page that does not change: what doctor reads, with the plans of all Services.
func (s *Source) Once(ctx context.Context) (model.Snapshot, error) {
	report, facts := s.doctor(ctx, true)
	f := picture.OfInspection(facts, &report)
	f.Options, f.Clean = s.flags(), s.o.Redact([]string{facts.Config.APIKey, facts.Config.SecretKey})
	return picture.Of(&f), ctx.Err()
}

// inspectAgain runs doctor's checks again and again.
func (s *Source) inspectAgain(ctx context.Context) {
	if !s.watched.synced(ctx) {
		return
	}
	for {
		report, facts := s.inspect(ctx, false)
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
		if !wait(ctx, max(inspectEvery, s.o.Interval), nil) {
			return
		}
	}
}

// publish makes what was read last the snapshot that is shown.
func (s *Source) publish() {
	f := s.watched.facts()
	s.mu.Lock()
	defer s.mu.Unlock()
	f.At, f.Title, f.Options, f.Clean = time.Now(), picture.Title(s.o.Cluster.Context), s.flags(), s.clean
	f.Sources, f.Members = []model.Source{s.kube, s.cloud}, map[string][]string{}
	lacks := func(part, reason, fix string) {
		f.Missing = append(f.Missing, model.Missing{Part: part, Reason: reason, Remedy: fix})
	}
	if s.report == nil {
		lacks("checks", "the checks have not ended yet", "wait some seconds")
	} else {
		inspected := picture.OfInspection(s.facts, s.report)
		f.Checks, f.Kubelets, f.Members, f.Pods, f.Next = inspected.Checks, inspected.Kubelets, inspected.Members, inspected.Pods, inspected.Next
		f.Findings = slices.Collect(maps.Values(s.findings))
	}
	if s.lists == nil {
		lacks("plans", cmp.Or(s.cloud.Reason, "CloudStack has not answered yet"), s.cloud.Remedy)
	} else {
		members := f.Members
		maps.Copy(members, s.lists.Members)
		f.Cloud = *s.lists
		f.Members = members
		if f.Quota != nil {
			f.Sources[1].Addresses, f.Sources[1].MaxAddresses = f.Quota.Used, f.Quota.Max
		}
		if f.Plans == nil {
			lacks("plans", "the Services are being planned", "wait some seconds")
		}
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
	defer s.disconnect()
	if !s.watched.synced(ctx) {
		return
	}
	for {
		f := s.watched.facts()
		f.At = time.Now()
		var round *service.Round
		s.read(ctx, &s.cloud, s.within, func(ctx context.Context) (err error) {
			round, err = s.readLists(ctx, &f)
			return err
		})
		if round != nil {
			s.store(&f)
			// A plan asks for the members of each rule that may have changed.
			s.read(ctx, &s.cloud, s.within+time.Duration(len(f.Services))*time.Second, func(ctx context.Context) error {
				f.Members = map[string][]string{}
				return s.plans.make(ctx, round, s.connection.settings, &f)
			})
			s.store(&f)
		}
		if !wait(ctx, s.o.Interval, s.due) {
			return
		}
	}
}

// store makes what was read the last that is known. Without new plans the last ones are kept.
func (s *Source) store(f *picture.Facts) {
	lists := f.Cloud
	s.mu.Lock()
	if lists.Plans == nil && s.lists != nil {
		lists.Plans, lists.Members = s.lists.Plans, s.lists.Members
	}
	s.lists = &lists
	s.mu.Unlock()
	signal(s.arrived)
}

// readLists reads whole lists of CloudStack. The round is of those who plan from the same lists.
func (s *Source) readLists(ctx context.Context, f *picture.Facts) (*service.Round, error) {
	if s.connection == nil {
		c, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		s.connection = c
		s.mu.Lock()
		s.clean = remember(c.clean)
		s.mu.Unlock()
	}
	c := s.connection
	round := c.Round(time.Now())
	found, err := round.Project(ctx)
	if err != nil {
		if cloudstack.IsKind(err, cloudstack.KindAuth) { // somebody rotated the keys: the next read connects with the new ones
			s.disconnect()
		}
		return nil, fmt.Errorf("read CloudStack: %w", err)
	}
	f.VMs, f.Addresses, f.Rules, f.Orphans = found.VMs, found.Addresses, found.Rules, found.Orphans
	project, err := c.ProjectID(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	if f.Networks, err = c.api.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: project}); err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	if f.Forwards, err = c.api.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project}); err != nil {
		return nil, fmt.Errorf("list port forwarding rules: %w", err)
	}
	if !s.noQuota { // the minimal role may not ask; without an answer the page shows no limit
		quota, err := c.api.ReadQuota(ctx, project)
		if s.noQuota = cloudstack.IsKind(err, cloudstack.KindNotPermitted); err == nil && quota.PublicIPs.Max != cloudapi.Unlimited {
			f.Quota = &quota.PublicIPs
		}
	}
	return round, nil
}

func (s *Source) disconnect() {
	if s.connection != nil {
		s.connection.end()
		s.connection = nil
	}
}

// remedy is what an error says is to be done.
func remedy(err error) string {
	var remedied interface{ Remedy() string }
	if errors.As(err, &remedied) {
		return remedied.Remedy()
	}
	return ""
}

// remember keeps what was cleaned: most texts of a snapshot are those of the last one.
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
