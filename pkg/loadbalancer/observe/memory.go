// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Memory is what was read of a Service's rules, and need not be read again soon.
type Memory struct {
	known   bool                  // the Service was observed before by this process
	members map[string]memberRead // by rule id
	extras  map[string]extraRead  // by rule id
}

type memberRead struct {
	vms []string
	at  time.Time
}

// extraRead is what the list of rules does not show of a rule.
type extraRead struct {
	stickiness  *annotation.Stickiness
	policyID    string
	certificate string
	at          time.Time
}

// NewMemory makes an empty Memory.
func NewMemory() Memory {
	return Memory{members: map[string]memberRead{}, extras: map[string]extraRead{}}
}

// Known reports whether the Service was observed before.
func (m *Memory) Known() bool { return m.known }

// Forget clears members and extras, which anybody may have changed since they were read.
func (m *Memory) Forget() {
	clear(m.members)
	clear(m.extras)
}

// Wrote remembers a rule as it was written.
func (m *Memory) Wrote(rule *plan.ActualRule, now time.Time) {
	m.members[rule.ID] = memberRead{vms: rule.Members, at: now}
	m.extras[rule.ID] = extraRead{stickiness: rule.Stickiness, policyID: rule.PolicyID, certificate: rule.Certificate, at: now}
}

// Deleted drops a rule.
func (m *Memory) Deleted(ruleID string) {
	delete(m.members, ruleID)
	delete(m.extras, ruleID)
}
