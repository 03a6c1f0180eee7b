// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyed provides a mutex for each of many keys.
package keyed

import (
	"context"
	"slices"
	"sync"
)

// Mutex is a mutex per key. The zero value is ready for use.
type Mutex struct {
	mu       sync.Mutex
	locked   map[string]bool
	unlocked chan struct{} // closed when keys are unlocked
}

// Lock locks all keys at the same time and returns a function that unlocks them. If the context ends first, Lock
// returns its error and locks nothing.
func (k *Mutex) Lock(ctx context.Context, keys ...string) (unlock func(), err error) {
	keys = slices.Clone(keys)
	k.mu.Lock()
	defer k.mu.Unlock()
	for slices.ContainsFunc(keys, func(key string) bool { return k.locked[key] }) {
		unlocked := k.unlocked
		k.mu.Unlock()
		select {
		case <-unlocked:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if k.mu.Lock(); err != nil {
			return nil, err
		}
	}

	if k.locked == nil {
		k.locked, k.unlocked = map[string]bool{}, make(chan struct{})
	}

	for _, key := range keys {
		k.locked[key] = true
	}

	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, key := range keys {
			delete(k.locked, key)
		}
		close(k.unlocked)
		k.unlocked = make(chan struct{})
	}, nil
}
