// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// A job that takes long, or never ends, does not block a worker: a sync waits for jobs for some seconds in total, and
// then returns a *plan.WaitError. Running jobs remain in the Memory of the Service, and the next sync makes the changes
// that do not conflict with them. A change is never submitted again while its job is running.

const (
	// patience is how long a sync waits for jobs. Most jobs of a router take a second or two.
	patience = 5 * time.Second
	// lookAgain is the time after which a sync that stopped waiting is repeated, unless a job ends earlier.
	lookAgain = 30 * time.Second
	// planAgain is the time after which a sync is repeated whose plan became outdated.
	planAgain = time.Millisecond
)

// job is a submitted call.
type job struct {
	step      plan.Step // empty for an additional call of an action
	rule      string    // id of the rule that the job works on
	command   string
	id        string
	submitted time.Time
	outcome   plan.Outcome

	after    *job                 // the job that creates the rule, which must take effect first; nil if there is none
	followed *cloudstack.Followed // nil until a sync waits for it
	detach   func() bool          // separates the wait from the end of the process
	err      error                // why the job failed
	parked   bool                 // a sync has waited for the job, and has ended
	notifies bool                 // the end of the job wakes its Service
}

// ended reports whether the job has ended.
func (j *job) ended() bool { return j.followed.Err() != nil }

// ready reports whether the job has ended and its action may take effect.
func (j *job) ready() bool { return j.ended() && (j.after == nil || j.after.ended()) }

// Memory is what has to be remembered about the changes of a Service until its next sync.
type Memory struct {
	// Releasing has the addresses whose release was submitted and is not known to have succeeded. The time is zero if
	// the release is known to have failed.
	Releasing map[string]time.Time
	deleting  time.Time // when a rule in state Deleting first delayed the release of an address

	jobs      []*job          // jobs of actions that are still running
	rules     map[int]string  // by port, the ids of rules created since jobs was last empty
	extraJobs map[string]*job // jobs of additional calls that actions make, see alone
	acquired  string          // id of the last acquired address
}

// Reset stops waiting for all jobs, because nothing of the Service is left in CloudStack.
func (m *Memory) Reset() {
	for _, j := range m.followed() {
		j.detach()
		j.followed.Stop()
	}
	m.jobs, m.extraJobs = nil, nil
}

// followed returns the jobs that a sync waits for.
func (m *Memory) followed() []*job {
	all := slices.AppendSeq(slices.Clone(m.jobs), maps.Values(m.extraJobs))
	return slices.DeleteFunc(all, func(j *job) bool { return j.followed == nil })
}

// waiting returns the error of a sync that stops waiting for running jobs.
func (m *Memory) waiting(after time.Duration) error {
	var names []string
	var late error
	running := m.followed()
	for _, j := range running {
		late = errors.Join(late, j.followed.Late())
		names = append(names, fmt.Sprintf("%s (job %s)", j.command, j.id))
	}

	slices.Sort(names)
	message := "waiting for CloudStack to end " + plan.Some(names, 3)
	if len(names) == 0 {
		message = "waiting for a job of another Service on the same address"
	}

	notify := func(wake func()) {
		for _, j := range running {
			if !j.notifies {
				j.notifies = true
				context.AfterFunc(j.followed, wake)
			}
		}
	}
	return errors.Join(late, &plan.WaitError{Message: message, After: after, Notify: notify})
}

// follow starts to wait for a job to end, however long that takes, until the process ends.
func (w *Work) follow(ctx context.Context, j *job, await cloudstack.Await) {
	await.Command, await.JobID, await.Age = j.command, j.id, w.Clock.Since(j.submitted)
	j.followed = w.API.Client.Jobs().Follow(await) //nolint:contextcheck // a later sync may need the result, too
	j.detach = context.AfterFunc(ctx, j.followed.Stop)
}

// waitFor waits for jobs as long as the sync still may.
func (w *Work) waitFor(ctx context.Context, jobs []*job) {
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	begun := time.Now()
	for _, j := range jobs {
		if !j.parked {
			select {
			case <-j.followed.Done():
			case <-ctx.Done():
			}
		}
	}
	w.patience -= time.Since(begun)
}

// alone makes a call and waits for its job. If the job of an earlier call with the same key is still running, it waits
// for that one instead.
func (w *Work) alone(
	ctx context.Context, key string, await cloudstack.Await, submit func() (cloudstack.Submitted, error),
) (*cloudstack.Job, error) {
	j := w.extraJobs[key]
	if j == nil {
		submitted, err := submit()
		if err != nil {
			return nil, err
		}
		j = &job{command: await.Command, id: submitted.JobID, submitted: w.Clock.Now().Add(-await.Age)}
		if w.extraJobs == nil {
			w.extraJobs = map[string]*job{}
		}
		w.extraJobs[key] = j
		w.follow(ctx, j, await)
	}

	w.waitFor(ctx, []*job{j})
	if !j.ended() {
		j.parked = true
		return nil, cmp.Or(ctx.Err(), w.waiting(lookAgain)) //nolint:contextcheck // a job wakes without ctx
	}

	j.detach()
	delete(w.extraJobs, key)
	return j.followed.Result()
}

// wait is like alone for a call on items whose result does not matter.
func (w *Work) wait(
	ctx context.Context, command string, ids []string, submit func() (cloudstack.Submitted, error),
) error {
	_, err := w.alone(ctx, command+" "+strings.Join(ids, " "), cloudstack.Await{Command: command}, submit)
	return err
}

// Settle completes the jobs and acquisitions of earlier syncs that have ended. After the end of an acquisition, the
// state of CloudStack is not known.
func (w *Work) Settle(ctx context.Context) error {
	known, changed := w.Actual != nil, false
	if !known {
		w.Actual = &plan.Actual{}
	}

	err := w.finish(ctx, func(*job) bool { return true })
	if err == nil {
		changed, err = w.settlePending(ctx)
	}
	if changed || !known {
		w.Actual = nil
	}
	return err
}

// busy reports whether an action has to wait for a job. Two concurrent changes of one rule fail, and the same change is
// not submitted twice. Only the members of a rule may be added while the rule is created.
//
// Firewall rules of an address are submitted one after the other: otherwise CloudStack waits for 5 s.
//
// Ports of an internal address are created and deleted one by one: after two concurrent deletions, the VM of the load
// balancer keeps the address, and every later creation on it fails (error 533).
//
// A deletion waits for other changes only for a limited time.
func (w *Work) busy(s plan.Step, j *job) bool {
	rule, address := w.ruleID(s), ""
	if a := w.on(s); a != nil && s.ACLID == "" && s.Kind != plan.AllocateAddress {
		address = a.ID
	}

	other := &j.step
	sameChange := s.Kind == other.Kind &&
		s.ACLID == other.ACLID &&
		address == other.AddressID &&
		s.ItemID == other.ItemID &&
		s.Port == other.Port && s.Protocol == other.Protocol && slices.Equal(s.CIDRs, other.CIDRs) &&
		(s.Access.Protocol == "" || s.Access.Overlaps(other.Access))

	joins := other.Kind == plan.CreateRule && s.Kind == plan.AddMembers && !w.unproven(*other)
	long := s.Destructive() && w.Clock.Since(j.submitted) >= deletionGrace
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
