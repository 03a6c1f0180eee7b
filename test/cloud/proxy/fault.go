// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"math/rand/v2"
	"sync"
)

// Fault is what happens to a call.
type Fault int

// The faults.
const (
	None Fault = iota
	// FailBefore answers 530 in place of CloudStack.
	FailBefore
	// CutBefore ends the connection, and CloudStack does not see the call.
	CutBefore
	// LoseAnswer ends the connection after CloudStack has done its work.
	LoseAnswer
)

// SetFault asks f about each call of the product, one at a time, until the function that it returns is called.
func (p *Proxy) SetFault(f func(*Call) Fault) (undo func()) {
	var one sync.Mutex
	locked := func(c *Call) Fault {
		one.Lock()
		defer one.Unlock()
		return f(c)
	}
	p.fault.Store(&locked)
	return func() { p.fault.Store(nil) }
}

// Random lets shares of the calls fail, and of the answers be lost. The sequence is the same for the same seed.
func Random(seed uint64, fail, lose float64) func(*Call) Fault {
	r := rand.New(rand.NewPCG(seed, 1)) // #nosec G404 -- the same for the same seed
	return func(*Call) Fault {
		switch x := r.Float64(); {
		case x < fail:
			return FailBefore
		case x < fail+lose:
			return LoseAnswer
		}
		return None
	}
}

// CrashAt loses the answer of the k-th call (from 1), or of the k-th that changes something unless every is set, and calls crash
// with its command before the caller learns that its connection has ended. Calls after it are not passed on: whoever crashed makes none.
func CrashAt(k int, every bool, crash func(at string)) func(*Call) Fault {
	n := 0
	return func(c *Call) Fault {
		switch {
		case n >= k:
			return CutBefore
		case !every && !c.Changes():
			return None
		}
		if n++; n < k {
			return None
		}
		c.after = func() { crash(c.Command) }
		return LoseAnswer
	}
}
