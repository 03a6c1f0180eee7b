// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Options configure a simulator.
type Options struct {
	World   *World           // nil: FreshWorld
	Clock   clock.WithTicker // nil: real time
	Latency LatencyProfile   // zero: instant
	Logger  *slog.Logger     // nil: silent; at level Debug every call is logged, without secrets
	Seed    uint64           // seed of the random sequence for faults with a probability
	// Inside simulates what happens inside the VMs of Kubernetes clusters; nil: whatever CloudStack waits for
	// succeeds.
	Inside ClusterInside
	// ReuseAnswers makes the simulator send the answer of an earlier read again as long as nothing has changed. Only
	// the statistics of VMs, which depend on the time, may then be old.
	ReuseAnswers bool
}

// Simulator is an in-memory CloudStack management server. Its handlers are safe for concurrent use.
type Simulator struct {
	server  wire.Server
	cmds    map[string]*wire.Command
	log     *slog.Logger
	ledger  *Ledger
	faults  fault.Set
	locks   *wire.RowLocks
	watch   watch
	nextDue atomic.Int64 // when the next job is due, in Unix nanoseconds; 0: no job
	closed  atomic.Bool
	ctx     context.Context // for the work that jobs do without the lock
	cancel  context.CancelFunc

	awayUntil atomic.Int64 // end of the downtime of a restart, in Unix nanoseconds; 0: none

	mu      stateLock
	st      *store.State
	answers *answers // nil if none are reused
}

// stateLock guards the state, and counts its possible changes.
type stateLock struct {
	sync.RWMutex
	changes int
}

// Lock locks the state for a change.
func (l *stateLock) Lock() {
	l.RWMutex.Lock()
	l.changes++
}

// New builds the world and returns its server.
func New(o Options) (*Simulator, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	if o.World == nil {
		o.World = FreshWorld()
	}

	implemented, err := loadCommands()
	if err != nil {
		return nil, err
	}

	r, err := o.World.release()
	if err != nil {
		return nil, err
	}

	st, err := o.World.build(o.Clock.Now())
	if err != nil {
		return nil, err
	}

	s := &Simulator{
		server: wire.Server{
			Clock:    o.Clock,
			Latency:  o.Latency,
			Cat:      implemented.cat.At(r),
			Sessions: wire.NewSessions(),
			Inside:   o.Inside,
		},
		cmds:   implemented.byName,
		log:    o.Logger,
		ledger: newLedger(),
		locks:  wire.NewRowLocks(o.Clock, o.Latency.LockRetry),
		st:     st,
	}

	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.faults.Seed(o.Seed)
	if o.ReuseAnswers {
		s.answers = &answers{known: map[string]knownAnswer{}}
	}

	s.ledger.jobs = s.jobOutcomes
	for _, text := range o.World.Faults {
		f, err := ParseFault(text) // validated with the world
		if err != nil {
			return nil, fmt.Errorf("world: %w", err)
		}
		s.Inject(f)
	}

	if o.Inside != nil {
		go s.runJobs()
	}

	return s, nil
}

// Handler serves the API at /client/api to callers with API keys or a session.
func (s *Simulator) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, false) })
}

// IntegrationHandler serves the same API without authentication, with the rights of a root admin, like CloudStack on
// integration.api.port.
func (s *Simulator) IntegrationHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, true) })
}

// Keys returns the API keys of a user. If several domains have a user of that name, add the domain: k8s/kubeadmin.
func (s *Simulator) Keys(username string) (apiKey, secretKey string, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	dom, name := s.st.Root(), username
	if i := strings.LastIndexByte(username, '/'); i >= 0 {
		d, found := s.st.DomainByPath(username[:i])
		if !found {
			return "", "", false
		}
		dom, name = d, username[i+1:]
	}

	u, found := s.st.UserIn(dom, name)
	if !found && dom == s.st.Root() {
		u, found = s.st.Users.Find(func(u *store.User) bool { return strings.EqualFold(u.Username, name) })
	}

	if !found || u.APIKey == "" {
		return "", "", false
	}

	return u.APIKey, u.SecretKey, true
}

// runJobs runs jobs when they are due, even without calls, until Close: work inside VMs must start in time.
func (s *Simulator) runJobs() {
	for s.ctx.Err() == nil {
		changed := s.watch.next()
		s.runDue()
		timer := s.server.Clock.NewTimer(s.untilDue())
		select {
		case <-s.ctx.Done():
		case <-changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// Now returns the time of the simulator's clock.
func (s *Simulator) Now() time.Time { return s.server.Clock.Now() }

// SetSpeed makes calls and jobs that begin from now on take 1/speed of the time of the latency profile; 1 is normal.
// An instant simulator that is slowed down uses the times of the profile simulator.
func (s *Simulator) SetSpeed(speed float64) error { return s.server.SetSpeed(speed) }

// Speed returns the current speed; 1 is normal.
func (s *Simulator) Speed() float64 { return s.server.Speed() }

// Ledger returns the ledger of calls.
func (s *Simulator) Ledger() *Ledger { return s.ledger }

// Close shuts the simulator down: it answers later calls with 503, and ends the contexts of ClusterInside.
func (s *Simulator) Close() {
	s.closed.Store(true)
	s.cancel()
}

// UserInfo is a user of the world with its keys.
type UserInfo struct {
	Name      string `json:"name"`
	Domain    string `json:"domain"`
	Account   string `json:"account"`
	Role      string `json:"-"`
	APIKey    string `json:"apiKey,omitempty"`
	SecretKey string `json:"secretKey,omitempty"`
	Generated bool   `json:"-"` // the keys were generated because the world has none
}

// Users returns the users in order of creation, without CloudStack's own users.
func (s *Simulator) Users() []UserInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []UserInfo
	for _, u := range s.st.Users.Rows {
		if !u.Removed && !u.Account.System() && u.Username != store.BaremetalAccount {
			out = append(out, UserInfo{
				Name:      u.Username,
				Domain:    u.Account.Domain.Display(),
				Account:   u.Account.Name,
				Role:      u.Account.Role.Name,
				APIKey:    u.APIKey,
				SecretKey: u.SecretKey,
				Generated: u.PrintKeys,
			})
		}
	}
	return out
}

var errClosed = errors.New("the simulator is closed")
