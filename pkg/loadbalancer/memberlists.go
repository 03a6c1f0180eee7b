// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"slices"
	"sync"
)

// memberLists has one copy of each list of members that Services want: most Services of a cluster are served by the same
// nodes, and a list of a thousand of them is kept as long as its Service.
type memberLists struct {
	mu     sync.Mutex
	recent [16][]string
	next   int // the oldest of them
}

// one returns the list itself, or one with the same content that was given before.
func (l *memberLists) one(list []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.recent {
		if slices.Equal(known, list) {
			return known
		}
	}
	list = slices.Clip(list) // nobody appends to what others have too
	l.recent[l.next] = list
	l.next = (l.next + 1) % len(l.recent)
	return list
}
