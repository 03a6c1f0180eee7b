// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
)

// Options configure a Reconciler.
type Options struct {
	// ClusterID names the cluster in tags.
	ClusterID func() string
	// Project returns the id of the project to work in; empty for the account's own resources.
	Project func(ctx context.Context) (string, error)
	// Network describes a network; it may be some minutes old.
	Network func(ctx context.Context, id string) (Network, error)
	// DriftPeriod is how long what was read is trusted; zero means for ever.
	DriftPeriod time.Duration
	// MemberPeriod is the same for the members of rules, which cost a read per rule. Zero: twelve drift periods.
	MemberPeriod time.Duration
	// Policy filters plans.
	Policy Policy
	// Clock is the real one when nil.
	Clock clock.PassiveClock
	// Log gets one line per action; may be nil.
	Log func(service, message string)
	// NewJobID makes UUIDs for customjobid; random when nil.
	NewJobID func() string
}

// Request is one Service to work on.
type Request struct {
	Service Service
	Spec    annotation.Spec
	Members []Member
	Records RecordStore
	Notify  func(Notice)
}

// Result is what a Service got.
type Result struct {
	// IP is the address that serves; empty when a policy held the work back.
	IP string
	// Plan is what was found to do; with the policy apply it has been done.
	Plan []Action
}

// WaitError asks for another try later: nothing failed, but something is not known yet.
type WaitError struct {
	Message string
	After   time.Duration
}

func (e *WaitError) Error() string { return e.Message }

// Reconciler brings Services to their desired state, many at a time and each by
// one goroutine at a time. It remembers what it read and wrote, so that a
// Service with nothing to do costs nothing.
type Reconciler struct {
	api     API
	options Options
	metrics *Metrics

	mu       sync.Mutex
	services map[string]*memory // by UID

	addresses   keyedMutex // one submitter per address
	associating sync.Mutex // two associateIpAddress at once make the server sleep

	noTags           atomic.Bool
	noCIDRUpdate     atomic.Bool
	cidrUpdateProven atomic.Bool
}

// memory is what a Reconciler knows of one Service; its lock serialises work on the Service.
type memory struct {
	sync.Mutex
	// actual is the state as last read and since written; nil when not known.
	actual *Actual
	readAt time.Time
	// done is the desired state that was last reached.
	done *Desired
	// records are the records as last saved or read; nil when the Service's copy counts.
	records   *annotation.Records
	members   map[string]memberRead // by rule id
	releasing map[string]bool       // addresses whose release was asked for and not seen to succeed
}

type memberRead struct {
	vms []string
	at  time.Time
}

// New makes a Reconciler. It makes no call.
func New(api API, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.MemberPeriod == 0 {
		o.MemberPeriod = 12 * o.DriftPeriod
	}
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	if o.NewJobID == nil {
		o.NewJobID = newUUID
	}
	return &Reconciler{api: api, options: o, metrics: newMetrics(), services: map[string]*memory{}}
}

// Metrics are the Reconciler's metrics.
func (r *Reconciler) Metrics() *Metrics { return r.metrics }

// applies tells whether plans are done in full.
func (r *Reconciler) applies() bool { return r.options.Policy == "" || r.options.Policy == PolicyApply }

func (r *Reconciler) limits() Limits {
	return Limits{NoTags: r.noTags.Load(), NoCIDRUpdate: r.noCIDRUpdate.Load()}
}

// task is one piece of work on one Service.
type task struct {
	Request
	mem     *memory
	records annotation.Records
	project string
	cluster string
	wanted  Desired
	// proven is set when the addresses themselves were read in this task, which releasing one asks for.
	proven bool
	read   bool // anything was read
	// updatedCIDRs are source ranges written in place, by rule id, until they were read back.
	updatedCIDRs map[string][]string
	notes        map[string]bool
}

func (t *task) notify(n Notice) {
	if t.Notify == nil || t.notes[n.Message] {
		return
	}
	t.notes[n.Message] = true
	t.Notify(n)
}

func (r *Reconciler) begin(ctx context.Context, req Request) (*task, func(), error) {
	r.mu.Lock()
	mem, ok := r.services[req.Service.UID]
	if !ok {
		mem = &memory{members: map[string]memberRead{}, releasing: map[string]bool{}}
		r.services[req.Service.UID] = mem
	}
	r.mu.Unlock()
	mem.Lock()
	project, err := r.options.Project(ctx)
	if err != nil {
		mem.Unlock()
		return nil, nil, err
	}
	t := &task{Request: req, mem: mem, project: project, cluster: r.options.ClusterID(), notes: map[string]bool{}}
	// The process is the only writer of records: what it wrote is newer than any cached copy of the Service.
	if mem.records != nil {
		t.records = mem.records.Clone()
	} else {
		t.records = req.Spec.Records.Clone()
	}
	return t, mem.Unlock, nil
}

// forget drops the memory of a Service that has nothing left.
func (r *Reconciler) forget(uid string) {
	r.mu.Lock()
	delete(r.services, uid)
	r.mu.Unlock()
}

// Ensure brings a Service to its desired state. Errors are *RefusalError when the
// Service cannot be served as it stands, *WaitError, or wrap *cloudstack.Error;
// the next call then goes on from where this one stopped.
func (r *Reconciler) Ensure(ctx context.Context, req Request) (Result, error) {
	t, end, err := r.begin(ctx, req)
	if err != nil {
		return Result{}, err
	}
	defer end()
	network, err := r.network(ctx, t)
	if err != nil {
		return Result{}, err
	}
	d, refusal := Desire(Facts{Service: req.Service, Spec: req.Spec, Members: req.Members, Network: network})
	if refusal != nil {
		return Result{}, refusal
	}
	t.wanted = d
	if err := r.settle(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	if err := r.look(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	var result Result
	// A second round only when the first taught us something about the server.
	for range 3 {
		actions, err := r.plan(ctx, t, network)
		if err != nil {
			return Result{}, r.failed(t, err)
		}
		result.Plan = append(result.Plan, actions...)
		again, err := r.apply(ctx, t, actions)
		if err != nil {
			return result, r.failed(t, err)
		}
		if !again {
			break
		}
		if err := r.observe(ctx, t, false); err != nil {
			return result, r.failed(t, err)
		}
	}
	if err := r.keepRecords(ctx, t); err != nil {
		return result, r.failed(t, err)
	}
	if r.applies() {
		t.mem.done = &d
	}
	r.metrics.held(req.Service.UID, len(t.mem.actual.Addresses))
	if target := chooseTarget(d, *t.mem.actual); target != nil {
		result.IP = target.IP
	}
	return result, nil
}

// network is the members' network, or the one of the recorded address when there are no members.
func (r *Reconciler) network(ctx context.Context, t *task) (*Network, error) {
	id := ""
	for _, m := range t.Members {
		if id != "" && m.NetworkID != id {
			return nil, nil //nolint:nilnil // Desire refuses several networks
		}
		id = m.NetworkID
	}
	if id == "" && len(t.records.Addresses) > 0 {
		id = t.records.Addresses[0].NetworkID
	}
	if id == "" {
		return nil, nil //nolint:nilnil // not known: Desire does without
	}
	n, err := r.options.Network(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look up the nodes' network: %w", err)
	}
	return &n, nil
}

// look makes the memory hold the actual state: from memory while that is young, else by reading.
func (r *Reconciler) look(ctx context.Context, t *task) error {
	if t.mem.actual != nil && (r.options.DriftPeriod == 0 || r.options.Clock.Since(t.mem.readAt) < r.options.DriftPeriod) {
		target := chooseTarget(t.wanted, *t.mem.actual)
		// An address that was not looked for before has to be read first.
		if t.wanted.Address == "" || target != nil {
			return nil
		}
	}
	return r.observe(ctx, t, false)
}

// plan plans from memory, and once more from a proving read when something would be released.
func (r *Reconciler) plan(ctx context.Context, t *task, network *Network) ([]Action, error) {
	for {
		if refusal := Fits(t.wanted, *t.mem.actual, network); refusal != nil {
			return nil, refusal
		}
		actions := Plan(t.wanted, *t.mem.actual, r.limits())
		proof := slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == ReleaseAddress || a.Kind == ForgetAddress })
		if proof && !t.proven {
			if err := r.observe(ctx, t, true); err != nil {
				return nil, err
			}
			continue
		}
		r.noteDrift(t, actions)
		for _, n := range foreignAccess(t.wanted, *t.mem.actual) {
			if t.read {
				t.notify(n)
			}
		}
		return actions, nil
	}
}

// noteDrift counts what others undid: actions towards a state that was reached before.
func (r *Reconciler) noteDrift(t *task, actions []Action) {
	r.metrics.planned(actions)
	if !t.read || t.mem.done == nil || !t.mem.done.Equal(t.wanted) {
		return
	}
	n := 0
	first := ""
	for _, a := range actions {
		if a.Kind != RememberAddress && a.Kind != TagAddress {
			n++
			if first == "" {
				first = a.Label
			}
		}
	}
	if n == 0 {
		return
	}
	r.metrics.drift(n)
	t.notify(Notice{Warning: true, Reason: ReasonDriftRepaired, Message: fmt.Sprintf("CloudStack was changed by others; repairing with %d actions, the first: %s", n, first)})
}

// failed forgets what is no longer certain. It passes errors through.
func (r *Reconciler) failed(t *task, err error) error {
	t.mem.actual = nil
	t.mem.done = nil
	clear(t.mem.members)
	return err
}

// Delete removes everything of a Service's. It returns nil only when nothing is left.
func (r *Reconciler) Delete(ctx context.Context, req Request) (Result, error) {
	t, end, err := r.begin(ctx, req)
	if err != nil {
		return Result{}, err
	}
	defer end()
	t.wanted = Desired{Absent: true, KeepAddress: req.Spec.KeepIP}
	if err := r.settle(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	if err := r.observe(ctx, t, true); err != nil {
		return Result{}, r.failed(t, err)
	}
	actions := Plan(t.wanted, *t.mem.actual, r.limits())
	r.metrics.planned(actions)
	if _, err := r.apply(ctx, t, actions); err != nil {
		return Result{Plan: actions}, r.failed(t, err)
	}
	if !r.applies() {
		return Result{Plan: actions}, fmt.Errorf("nothing is deleted under the policy %s", r.options.Policy)
	}
	t.records.Addresses = nil
	if err := r.save(ctx, t); err != nil {
		return Result{Plan: actions}, r.failed(t, err)
	}
	if len(t.records.Pending) > 0 {
		return Result{Plan: actions}, r.failed(t, &WaitError{
			Message: "waiting to learn whether an address whose acquisition got no answer arrived after all", After: lostAnswerGrace / 4,
		})
	}
	r.metrics.held(req.Service.UID, 0)
	r.forget(req.Service.UID)
	return Result{Plan: actions}, nil
}

// Exists tells whether anything of a Service's is there, and its addresses.
func (r *Reconciler) Exists(ctx context.Context, req Request) ([]string, bool, error) {
	t, end, err := r.begin(ctx, req)
	if err != nil {
		return nil, false, err
	}
	defer end()
	if !t.records.Empty() {
		var ips []string
		for _, a := range t.records.Addresses {
			ips = append(ips, a.IP)
		}
		return ips, true, nil
	}
	t.wanted = Desired{Absent: true}
	if err := r.observe(ctx, t, true); err != nil {
		return nil, false, r.failed(t, err)
	}
	var ips []string
	for i := range t.mem.actual.Addresses {
		if a := &t.mem.actual.Addresses[i]; a.ours() {
			ips = append(ips, a.IP)
		}
	}
	if len(ips) == 0 {
		r.forget(req.Service.UID)
	}
	return ips, len(ips) > 0, nil
}
