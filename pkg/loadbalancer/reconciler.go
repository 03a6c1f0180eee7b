// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
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
	// FormerClusterID is a name under which this cluster, and perhaps others, tagged earlier: such a tag is believed
	// only together with the Service's UID. Empty for none.
	FormerClusterID string
	// ClusterName is what older providers put into rules' names; "kubernetes" when empty.
	ClusterName string
	// Seal signs records; without one no record proves anything.
	Seal annotation.Signer
	// Neighbours are the cluster's Services of type LoadBalancer, asked for when an address has rules of others.
	Neighbours func(ctx context.Context) ([]Neighbour, error)
	// Unguarded switches guards off. Tests show with it that each guard is needed; nothing else sets it.
	Unguarded map[Guard]bool
	// Project returns the id of a project by name or id. The empty name is the configured project, whose id
	// is empty for the account's own resources. One that is not there is a *cloudstack.Error of KindNotFound.
	Project func(ctx context.Context, name string) (string, error)
	// Network describes a network of a project as it was no longer than maxAge ago; with zero it may be some minutes old.
	Network func(ctx context.Context, project, id string, maxAge time.Duration) (Network, error)
	// VMs are the ids of all VMs with a NIC in a network; may be nil.
	VMs func(ctx context.Context, project, networkID string) ([]string, error)
	// Known is what is known of the server beforehand; the rest is learned.
	Known Limits
	// LeaveACLs leaves network ACL lists alone.
	LeaveACLs bool
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
	// Released is called when an address was released; may be nil. It must not block.
	Released func()
	// NewJobID makes UUIDs for customjobid; random when nil.
	NewJobID func() string
}

// Request is one Service to work on.
type Request struct {
	Service Service
	Spec    annotation.Spec
	Members []Member
	// Reach are all nodes that may serve, if Members are only those that do now; they tell the network first.
	Reach []Member
	// Refresh reads Members and Reach again where they may be older than some seconds; may be nil.
	Refresh func(ctx context.Context) (members, reach []Member, err error)
	Records RecordStore
	Grants  Grants
	Notify  func(Notice)
}

// Result is what a Service got.
type Result struct {
	// IP is the address that serves; empty when a policy held the work back.
	IP string
	// Plan is what was found to do; with the policy apply and without an error it has been done.
	Plan []Action
	// Unserved says why clients may not reach the Service although the work succeeded; nil when there is no reason.
	Unserved *Notice
	// Done is how many of the plan's changes of CloudStack took effect, also when a later one failed.
	Done int
}

// WaitError asks for another try later: nothing failed, but something is not known yet.
type WaitError struct {
	Message string
	After   time.Duration
}

func (e *WaitError) Error() string { return e.Message }

// Reconciler brings Services to their desired state, many at a time and each by
// one goroutine at a time: callers of Ensure, Repair, Delete, Exists and CleanOrphan hold
// the Service's Turn. It remembers what it read and wrote, so that a
// Service with nothing to do costs nothing.
type Reconciler struct {
	api     API
	options Options
	metrics *Metrics

	mu       sync.Mutex
	services map[string]*memory // by UID
	lists    map[string]*lists  // by project
	started  time.Time
	touched  map[string]time.Time // when we last wrote to an address, by its id

	turns       KeyedMutex // one task per Service, see Turn
	addresses   KeyedMutex // one submitter per address
	acls        KeyedMutex // one chooser of numbers per network ACL list
	associating KeyedMutex // per project: two associateIpAddress at once make the server sleep

	noTags           atomic.Bool
	noCIDRUpdate     atomic.Bool
	cidrUpdateProven atomic.Bool
	noCIDRs          atomic.Bool
	cidrsProven      atomic.Bool
	noACLs           atomic.Bool
}

// memory is what a Reconciler knows of one Service. Only the holder of the Service's Turn uses it.
type memory struct {
	// actual is the state as last read and since written; nil when not known.
	actual *Actual
	readAt time.Time
	// done is the desired state that was last reached.
	done *Desired
	// records are the records as last saved or read, signatures included; nil when the Service's copy counts.
	records  *annotation.Records
	members  map[string]memberRead // by rule id
	extras   map[string]extraRead  // by rule id
	aclID    string                // the network ACL list that was last brought to the desired state
	known    bool                  // the state was read before by this process
	survey   bool                  // the last attempt failed, and had to look closely
	asked    string                // the address that was last asked for by name
	untagged int                   // syncs in a row that could not tag
	// releasing are addresses whose release was asked for and not seen to succeed, with the time; the zero time when it
	// is known to have failed.
	releasing map[string]time.Time
	deleting  map[string]time.Time // addresses with a rule in state Deleting, and since when
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
	if o.Released == nil {
		o.Released = func() {}
	}
	if o.NewJobID == nil {
		o.NewJobID = newUUID
	}
	return &Reconciler{api: api, options: o, metrics: newMetrics(), services: map[string]*memory{}, lists: map[string]*lists{}, touched: map[string]time.Time{}, started: o.Clock.Now()}
}

// Metrics are the Reconciler's metrics.
func (r *Reconciler) Metrics() *Metrics { return r.metrics }

// applies tells whether plans are done in full.
func (r *Reconciler) applies() bool { return r.options.Policy == "" || r.options.Policy == PolicyApply }

func (r *Reconciler) limits() Limits {
	return Limits{
		NoTags:       r.options.Known.NoTags || r.noTags.Load(),
		NoCIDRUpdate: r.options.Known.NoCIDRUpdate || r.noCIDRUpdate.Load() && !r.cidrUpdateProven.Load(),
		NoCIDRs:      r.options.Known.NoCIDRs || r.noCIDRs.Load() && !r.cidrsProven.Load(),
		CIDRsProven:  r.options.Known.CIDRsProven || r.cidrsProven.Load(),
		unclaimed:    r.options.Unguarded[GuardClaim],
	}
}

// Turn waits until no other task works on a Service, named by its UID, and returns what ends the turn.
func (r *Reconciler) Turn(ctx context.Context, uid string) (end func(), err error) {
	return r.turns.Lock(ctx, uid)
}

// clusters are the names under which this cluster may have signed and tagged.
func (r *Reconciler) clusters() []string {
	out := []string{r.options.ClusterID()}
	if former := r.options.FormerClusterID; former != "" && former != out[0] {
		out = append(out, former)
	}
	return out
}

func (r *Reconciler) leavesACLs() bool { return r.options.LeaveACLs || r.noACLs.Load() }

func newMemory() *memory {
	return &memory{members: map[string]memberRead{}, extras: map[string]extraRead{}, releasing: map[string]time.Time{}, deleting: map[string]time.Time{}}
}
