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
	held map[string]*keyLock
}

type keyLock struct {
	turn  chan struct{} // holds a token while somebody has the lock
	users int
}

// Lock locks all keys, in an order that cannot deadlock, and returns what unlocks them. It fails when the context ends
// first; then nothing is locked.
func (k *Mutex) Lock(ctx context.Context, keys ...string) (unlock func(), err error) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	locks := make([]*keyLock, 0, len(keys))
	unlock = func() {
		for i, l := range locks {
			<-l.turn
			k.leave(keys[i], l)
		}
	}
	for _, key := range keys {
		l := k.enter(key)
		select {
		case l.turn <- struct{}{}:
			locks = append(locks, l)
		case <-ctx.Done():
			k.leave(key, l)
			unlock()
			return nil, ctx.Err()
		}
	}
	return unlock, nil
}

func (k *Mutex) enter(key string) *keyLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = map[string]*keyLock{}
	}
	l, ok := k.held[key]
	if !ok {
		l = &keyLock{turn: make(chan struct{}, 1)}
		k.held[key] = l
	}
	l.users++
	return l
}

func (k *Mutex) leave(key string, l *keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.held, key)
	}
}
