// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/csccm/csccm/installer/check/decide"
)

// fact is something that is read once, however many checks ask for it.
type fact[T any] struct {
	noun  string          // what it is, for "NOUN could not be read"
	run   context.Context // of the whole run
	read  func(ctx context.Context) (T, error)
	token chan struct{} // holds one token: who takes it reads
	done  chan struct{} // closed when value and err are set
	value T
	err   error
}

func newFact[T any](run context.Context, noun string, read func(ctx context.Context) (T, error)) *fact[T] {
	f := &fact[T]{noun: noun, run: run, read: read, token: make(chan struct{}, 1), done: make(chan struct{})}
	f.token <- struct{}{}
	return f
}

// get returns the value, and reads it if no check has yet. Reading goes on under the context of the
// whole run when the check that asked first has run out of time: others wait for it too.
// Its errors name the fact; those of a fact made of others name the one that failed.
func (f *fact[T]) get(ctx context.Context) (T, error) {
	select {
	case <-f.token:
		go func() {
			defer close(f.done)
			defer func() {
				if p := recover(); p != nil {
					f.err = decide.Unreadable(f.noun, fmt.Errorf("csccm broke (%v): please report this", p))
				}
			}()
			f.value, f.err = f.read(f.run)
			var inner *decide.UnreadError
			if f.err != nil && !errors.As(f.err, &inner) {
				f.err = decide.Unreadable(f.noun, f.err)
			}
		}()
	default:
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, decide.Unreadable(f.noun, fmt.Errorf("not in time: %w", ctx.Err()))
	}
}

// known reports whether the value has been read.
func (f *fact[T]) known() bool {
	select {
	case <-f.done:
		return f.err == nil
	default:
		return false
	}
}

// peek returns the value if it has been read, and the zero value otherwise.
func (f *fact[T]) peek() T {
	if f.known() {
		return f.value
	}
	var zero T
	return zero
}

// judge decides by one fact; without it the finding is unknown.
func judge[A any](ctx context.Context, a *fact[A], rule func(A) Finding) Finding {
	v, err := a.get(ctx)
	if err != nil {
		return decide.Unread(err)
	}
	return rule(v)
}

// judge2 decides by two facts.
func judge2[A, B any](ctx context.Context, a *fact[A], b *fact[B], rule func(A, B) Finding) Finding {
	return judge(ctx, a, func(va A) Finding {
		return judge(ctx, b, func(vb B) Finding { return rule(va, vb) })
	})
}

// judge3 decides by three facts.
func judge3[A, B, C any](ctx context.Context, a *fact[A], b *fact[B], c *fact[C], rule func(A, B, C) Finding) Finding {
	return judge(ctx, a, func(va A) Finding {
		return judge2(ctx, b, c, func(vb B, vc C) Finding { return rule(va, vb, vc) })
	})
}
