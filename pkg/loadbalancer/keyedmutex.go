// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"slices"
	"sync"
)

// KeyedMutex is a mutex per key. The zero value is ready for use.
type KeyedMutex struct {
	mu   sync.Mutex
	held map[string]*keyLock
}

type keyLock struct {
	sync.Mutex
	users int
}

// Lock locks all keys, in an order that cannot deadlock, and returns what unlocks them.
func (k *KeyedMutex) Lock(keys []string) (unlock func()) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	locks := make([]*keyLock, 0, len(keys))
	for _, key := range keys {
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]*keyLock{}
		}
		l, ok := k.held[key]
		if !ok {
			l = &keyLock{}
			k.held[key] = l
		}
		l.users++
		k.mu.Unlock()
		l.Lock()
		locks = append(locks, l)
	}
	return func() {
		for i, l := range locks {
			l.Unlock()
			k.mu.Lock()
			if l.users--; l.users == 0 {
				delete(k.held, keys[i])
			}
			k.mu.Unlock()
		}
	}
}
