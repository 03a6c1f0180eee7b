// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"maps"
	"sync"
)

// Call is one request that the simulator has answered.
type Call struct {
	Seq       int               // 1 is the first call since the last reset
	Command   string            // as sent; empty if none was
	Caller    string            // user name; empty for unauthenticated calls
	Params    map[string]string // by lower-case name, without secrets
	Status    int               // HTTP status; 0 when the connection was cut
	ErrorCode int               // CloudStack's errorcode; 0 on success
}

// ledgerLimit bounds the memory of a simulator that runs for days; counts go on beyond it.
const ledgerLimit = 200_000

// Ledger keeps every call: it is what budgets of API calls are asserted with.
type Ledger struct {
	mu     sync.Mutex
	seq    int
	calls  []Call
	counts map[string]int
}

func newLedger() *Ledger { return &Ledger{counts: map[string]int{}} }

// Calls returns the calls since the last reset in the order in which they were
// answered; of very many only the newest.
func (l *Ledger) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Call, len(l.calls))
	for i, c := range l.calls {
		c.Params = maps.Clone(c.Params)
		out[i] = c
	}
	return out
}

// Reset forgets all calls.
func (l *Ledger) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq, l.calls, l.counts = 0, nil, map[string]int{}
}

// Count returns how often the commands were called since the last reset; without names, all calls.
func (l *Ledger) Count(commands ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(commands) == 0 {
		return l.seq
	}
	n := 0
	for _, c := range commands {
		n += l.counts[c]
	}
	return n
}

func (l *Ledger) add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	c.Seq = l.seq
	l.counts[c.Command]++
	if len(l.calls) >= ledgerLimit {
		l.calls = append(l.calls[:0:0], l.calls[ledgerLimit/2:]...)
	}
	l.calls = append(l.calls, c)
}
