// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// A job that takes long, or never ends, keeps no worker: a sync waits for jobs for some seconds in all, and then ends with a
// *plan.WaitError. What runs stays in the Service's Memory, and the next sync goes on with what does not touch it. The same
// change is never submitted again while its job runs.

const (
	// patience is how long a sync waits for jobs. Most jobs of a router take a second or two.
	patience = 5 * time.Second
	// lookAgain is when a sync that did not wait any longer is repeated, if no end of a job repeats it earlier.
	lookAgain = 30 * time.Second
	// planAgain is when to repeat one whose plan is out of date.
	planAgain = time.Millisecond
)

// job is a submitted call.
type job struct {
	step      plan.Step // none for a call that an action makes besides its own
	rule      string    // id of the rule that it works on
	command   string
	id        string
	submitted time.Time
	outcome   plan.Outcome
	// ended completes the action; nil when there is nothing to do but its effect.
	ended func(err error) error

	after  *job            // the creation of its rule, which takes effect first; nil for none
	over   context.Context // done when the job has ended; nil until somebody waits for it
	stop   context.CancelFunc
	result *cloudstack.Job // nil for one that was not read
	err    error
	parked bool                  // a sync has waited for it, and has ended
	late   atomic.Pointer[error] // that it has not ended within job-timeout
}

// ready reports whether the job has ended, and its action may take effect.
func (j *job) ready() bool {
	return j.over.Err() != nil && (j.after == nil || j.after.over.Err() != nil)
}

// Memory is what has to be remembered of a Service's changes until the next sync.
type Memory struct {
	Releasing map[string]time.Time // addresses whose release was asked for and not seen to succeed; the zero time when it is known to have failed
	deleting  time.Time            // since when a rule in state Deleting keeps an address from being released

	run   *run            // with the jobs that still run
	alone map[string]*job // those of calls that an action makes besides its own, see alone

	mu   sync.Mutex
	news context.Context // done when a job has ended since it was made
	tell context.CancelFunc
}

// Forget ends the wait for all jobs: the Service has nothing in CloudStack any more.
func (m *Memory) Forget() {
	for _, j := range m.jobs() {
		j.stop()
	}
	m.run, m.alone = nil, nil
}

// jobs returns the jobs that somebody waits for.
func (m *Memory) jobs() (out []*job) {
	for _, j := range m.alone {
		out = append(out, j)
	}
	if m.run != nil {
		out = append(out, m.run.jobs...)
	}
	return slices.DeleteFunc(out, func(j *job) bool { return j.over == nil })
}

// waiting returns the error of a sync that does not wait any longer for jobs that still run.
func (m *Memory) waiting(after time.Duration) error {
	m.mu.Lock()
	if m.news == nil || m.news.Err() != nil {
		m.news, m.tell = context.WithCancel(context.Background())
	}
	wait := &plan.WaitError{After: after, Ended: m.news.Done()}
	m.mu.Unlock()

	var names []string
	var late error
	for _, j := range m.jobs() {
		if j.ready() {
			m.end() // meanwhile
		}
		if err := j.late.Load(); err != nil {
			late = errors.Join(late, *err)
		}
		names = append(names, fmt.Sprintf("%s (job %s)", j.command, j.id))
	}
	slices.Sort(names)
	wait.Message = "waiting for CloudStack to end " + plan.Some(names, 3)
	if len(names) == 0 {
		wait.Message = "waiting for a job of another Service on the same address"
	}
	if late != nil {
		return errors.Join(late, wait)
	}
	return wait
}

// end says that a job has ended.
func (m *Memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tell != nil {
		m.tell()
	}
}

// follow waits for a job in the background until it ends, however long that takes.
func (a *Applier) follow(ctx context.Context, m *Memory, j *job, await cloudstack.Await) {
	await.Command, await.JobID, await.Age = j.command, j.id, a.Clock.Since(j.submitted)
	ctx, j.stop = context.WithCancel(ctx)
	over, ended := context.WithCancel(context.Background())
	j.over = over
	go func() {
		defer m.end()
		defer ended()
		for {
			j.result, j.err = a.API.Await(ctx, await)
			if !errors.Is(j.err, cloudstack.ErrJobTimeout) {
				return
			}
			err := j.err
			j.late.Store(&err)
			await.Age = a.Clock.Since(j.submitted)
		}
	}()
}

// waitFor waits for jobs as long as the sync still may.
func (w *Work) waitFor(ctx context.Context, jobs []*job) {
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	begun := time.Now()
	for _, j := range jobs {
		if !j.parked {
			select {
			case <-j.over.Done():
			case <-ctx.Done():
			}
		}
	}
	w.patience -= time.Since(begun)
}

// alone makes a call and waits for its job, unless the job of the same call, by its key, still runs.
func (a *Applier) alone(ctx context.Context, w *Work, key string, await cloudstack.Await, submit func() (cloudstack.Submitted, error)) (*cloudstack.Job, error) {
	j := w.Memory.alone[key]
	if j == nil {
		submitted, err := submit()
		if err != nil {
			return nil, err
		}
		j = &job{command: await.Command, id: submitted.JobID, submitted: a.Clock.Now().Add(-await.Age)}
		if w.Memory.alone == nil {
			w.Memory.alone = map[string]*job{}
		}
		w.Memory.alone[key] = j
		a.follow(ctx, w.Memory, j, await)
	}
	w.waitFor(ctx, []*job{j})
	if j.over.Err() == nil {
		j.parked = true
		return nil, w.Memory.waiting(lookAgain)
	}
	j.stop()
	delete(w.Memory.alone, key)
	return j.result, j.err
}

// wait is alone for a call on items of which only the success matters.
func (a *Applier) wait(ctx context.Context, w *Work, command string, ids []string, submit func() (cloudstack.Submitted, error)) error {
	_, err := a.alone(ctx, w, command+" "+strings.Join(ids, " "), cloudstack.Await{Command: command}, submit)
	return err
}

// Resume completes the actions of jobs that have ended since the last sync.
func (a *Applier) Resume(ctx context.Context, w *Work) error {
	r := w.Memory.run
	if r == nil || len(r.jobs) == 0 {
		return nil
	}
	if w.Actual == nil { // it is read again afterwards
		w.Actual = r.known
	}
	r.Work = w
	return r.finish(ctx, func(*job) bool { return true })
}

// busy reports whether an action has to wait for a job: two changes of one rule at once fail, and the same change is not made
// again. Only adding the members of a rule may go along with its creation.
//
// A firewall rule is submitted when the job of the one before on its address has ended: CloudStack would wait for 5 s.
//
// Ports of an internal address are made and deleted one by one: two deletions at once leave the balancer's VM and the
// address taken, and every later creation on the address fails (533).
//
// What is removed waits for other changes only for some time.
func (r *run) busy(s plan.Step, j *job) bool {
	rule, address := r.ruleID(s), ""
	if a := r.on(s); a != nil && s.ACLID == "" && s.Kind != plan.AllocateAddress {
		address = a.ID
	}
	other := &j.step
	sameChange := s.Kind == other.Kind && s.ACLID == other.ACLID && address == other.AddressID && s.ItemID == other.ItemID &&
		s.Port == other.Port && s.Protocol == other.Protocol && slices.Equal(s.CIDRs, other.CIDRs) &&
		(s.Access.Protocol == "" || s.Access.Overlaps(other.Access))
	joins := other.Kind == plan.CreateRule && s.Kind == plan.AddMembers && !r.unproven(*other)
	long := s.Destructive() && r.Clock.Since(j.submitted) >= deletionGrace
	switch {
	case sameChange:
		return true
	case s.Kind == plan.ReleaseAddress:
		return other.Destructive() && other.AddressID == address && !long
	case long:
		return false
	case s.Internal && s.Resource() == plan.ResourceRule:
		return true
	case s.Makes() == plan.ResourceFirewall && other.Makes() == plan.ResourceFirewall:
		return true
	}
	return rule != "" && j.rule == rule && !joins || s.ItemID != "" && s.ItemID == other.ItemID
}
