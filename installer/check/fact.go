// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// fact is something that a run reads once, however many checks ask for it.
type fact[T any] struct {
	noun string // what it is, for "NOUN could not be read"
	read func(ctx context.Context, e *Env) (T, error)
}

// facts are what a run has read.
type facts struct {
	run   context.Context //nolint:containedctx // of the whole run, which reading goes on under
	phase Phase
	// allMembers: the members of every load balancer rule are read, however many calls that takes.
	allMembers   bool
	owner        atomic.Pointer[Owner]             // nil where the server does not say
	driverConfig atomic.Pointer[cloudstack.Config] // of the CSI driver, if it was read
	inventory    *inventory.Inventory              // nil without CloudStack
	states       sync.Map                          // *state[T] by *fact[T]
}

// state is a fact in one run.
type state[T any] struct {
	once  sync.Once
	done  chan struct{} // closed when value and err are set
	value T
	err   error
}

func (f *fact[T]) in(e *Env) *state[T] {
	s, _ := e.facts.states.LoadOrStore(f, &state[T]{done: make(chan struct{})})
	return s.(*state[T]) //nolint:forcetypeassert // of no other type
}

// get returns the value, and reads it if no check has yet. Reading goes on under the context of the
// whole run when the check that asked first has run out of time: others wait for it too.
// Its errors name the fact; those of a fact made of others name the one that failed.
func (f *fact[T]) get(ctx context.Context, e *Env) (T, error) {
	s := f.in(e)
	s.once.Do(func() {
		go func() {
			defer close(s.done)
			defer func() {
				if p := recover(); p != nil {
					s.err = decide.Unreadable(f.noun, fmt.Errorf("csccm broke (%v): please report this", p))
				}
			}()
			s.value, s.err = f.read(e.facts.run, e)
			var inner *decide.UnreadError
			if s.err != nil && !errors.As(s.err, &inner) {
				s.err = decide.Unreadable(f.noun, s.err)
			}
		}()
	})
	select {
	case <-s.done:
		return s.value, s.err
	case <-ctx.Done():
		var zero T
		return zero, decide.Unreadable(f.noun, fmt.Errorf("not in time: %w", ctx.Err()))
	}
}

// peek returns the value if it has been read.
func (f *fact[T]) peek(e *Env) (value T, known bool) {
	s := f.in(e)
	select {
	case <-s.done:
		if s.err == nil {
			return s.value, true
		}
	default:
	}
	return value, false
}

// judge decides by one fact; without it the finding is unknown.
func judge[A any](ctx context.Context, e *Env, a *fact[A], rule func(A) Finding) Finding {
	v, err := a.get(ctx, e)
	if err != nil {
		return decide.Unread(err)
	}
	return rule(v)
}

// judge2 decides by two facts.
func judge2[A, B any](ctx context.Context, e *Env, a *fact[A], b *fact[B], rule func(A, B) Finding) Finding {
	return judge(ctx, e, a, func(va A) Finding {
		return judge(ctx, e, b, func(vb B) Finding { return rule(va, vb) })
	})
}

// judge3 decides by three facts.
func judge3[A, B, C any](ctx context.Context, e *Env, a *fact[A], b *fact[B], c *fact[C], rule func(A, B, C) Finding) Finding {
	return judge(ctx, e, a, func(va A) Finding {
		return judge2(ctx, e, b, c, func(vb B, vc C) Finding { return rule(va, vb, vc) })
	})
}

// by, by2 and by3 make a check of a rule that needs nothing but facts.
func by[A any](a *fact[A], rule func(A) Finding) func(context.Context, *Env) Finding {
	return func(ctx context.Context, e *Env) Finding { return judge(ctx, e, a, rule) }
}

func by2[A, B any](a *fact[A], b *fact[B], rule func(A, B) Finding) func(context.Context, *Env) Finding {
	return func(ctx context.Context, e *Env) Finding { return judge2(ctx, e, a, b, rule) }
}

func by3[A, B, C any](a *fact[A], b *fact[B], c *fact[C], rule func(A, B, C) Finding) func(context.Context, *Env) Finding {
	return func(ctx context.Context, e *Env) Finding { return judge3(ctx, e, a, b, c, rule) }
}
