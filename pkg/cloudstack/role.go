// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// RefusalAge is how long a refusal counts: a role may be changed at any time, and a refusal may be about one object.
const RefusalAge = 10 * time.Minute

// Role records, by project, what earlier answers have shown about the role of the API's user and about the server. An
// ability counts until an answer contradicts it; a missing one counts for RefusalAge and is then tried again. The zero
// value is not usable.
type Role struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	facts map[ability]fact
}

// ability is a command, or something else that the server may do for the role in a project.
type ability struct{ project, name string }

// fact is the last answer about an ability.
type fact struct {
	has  bool
	seen time.Time
}

// NewRole returns a Role without any facts.
func NewRole(c clock.PassiveClock) *Role { return &Role{clock: c, facts: map[ability]fact{}} }

// Note records whether the role has an ability. It reports whether that differs from what was known.
func (r *Role) Note(project, name string, has bool) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := ability{project, name}
	before, known := r.facts[key]
	r.facts[key] = fact{has, r.clock.Now()}
	return !known || before.has != has
}

// Learn records what the answer to a command shows. It reports whether the role does not allow the command, and whether
// that differs from what was known.
func (r *Role) Learn(project, command string, err error) (refused, news bool) {
	refused = IsKind(err, KindNotPermitted)
	if err == nil || refused {
		news = r.Note(project, command, !refused)
	}
	return refused, news
}

// Has reports whether the role has an ability, and whether that is known. A refusal from before since does not count.
func (r *Role) Has(project, name string, since time.Time) (has, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, known := r.facts[ability{project, name}]
	return f.has, known && (f.has || !f.seen.Before(since) && r.clock.Since(f.seen) < RefusalAge)
}

// Denied reports whether the role is known not to have an ability, see Has.
func (r *Role) Denied(project, name string, since time.Time) bool {
	has, known := r.Has(project, name, since)
	return known && !has
}

// Refused returns the abilities that the role is known to lack in a project, each with the time of the answer.
func (r *Role) Refused(project string) map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]time.Time{}
	for key, f := range r.facts {
		if key.project == project && !f.has {
			out[key.name] = f.seen
		}
	}
	return out
}

// Reset deletes all facts, because the keys are now another user's.
func (r *Role) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.facts)
}
