// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyed has a mutex for each of many keys.
package keyed

import (
	"context"
	"slices"
	"sync"
)

// Mutex is a mutex per key. The zero value is ready for use.
type Mutex struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the key is unlocked
}

// Lock locks all keys at once and returns what unlocks them. It fails when the context ends first; then nothing is locked.
func (k *Mutex) Lock(ctx context.Context, keys ...string) (unlock func(), err error) {
	keys = slices.Clone(keys)
	unlocked := make(chan struct{})
	for {
		busy := k.take(keys, unlocked)
		if busy == nil {
			break
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, key := range keys {
			delete(k.held, key)
		}
		close(unlocked)
	}, nil
}

// take locks all keys if none of them is locked, else it returns the channel of one that is.
func (k *Mutex) take(keys []string, unlocked chan struct{}) (busy chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		if busy := k.held[key]; busy != nil {
			return busy
		}
	}
	if k.held == nil {
		k.held = map[string]chan struct{}{}
	}
	for _, key := range keys {
		k.held[key] = unlocked
	}
	return nil
}
