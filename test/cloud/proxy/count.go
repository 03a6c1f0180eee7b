// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/test/cloud/shape"
)

// Mark is a point in the sequence of calls.
type Mark int

func (p *Proxy) note(c *Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := *c
	kept.Params = nil // they hold keys
	p.calls = append(p.calls, kept)
}

// Mark returns the point that has been reached.
func (p *Proxy) Mark() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark(len(p.calls))
}

// Since returns the calls of a caller since a point.
func (p *Proxy) Since(m Mark, who string) Calls {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all Calls
	for _, c := range p.calls[m:] {
		if c.Who == who {
			all = append(all, c)
		}
	}
	return all
}

// Unknown returns the shapes that no recording has, in the order in which they came.
func (p *Proxy) Unknown() []shape.Unknown {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []shape.Unknown
	for _, key := range p.order {
		all = append(all, p.unknown[key])
	}
	return all
}

// Err returns why recordings could not be written.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Calls are calls in their order.
type Calls []Call

// WithoutPolls leaves out questions about jobs.
func (c Calls) WithoutPolls() Calls {
	return slices.DeleteFunc(slices.Clone(c), func(c Call) bool { return c.Polls() })
}

// By counts calls by command.
func (c Calls) By() map[string]int {
	n := map[string]int{}
	for i := range c {
		n[c[i].Command]++
	}
	return n
}

// String is the counts by command, the highest first.
func (c Calls) String() string {
	by := c.By()
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if by[a] != by[b] {
			return by[b] - by[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", by[name], name))
	}
	return strings.Join(parts, ", ")
}
