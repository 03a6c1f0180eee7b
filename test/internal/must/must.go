// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package must ends a piece of work at the first error, as require does in a test, for code that is no test.
package must

import (
	"errors"
	"fmt"
	"sync"
)

// failure is what OK panics with.
type failure struct{ error }

// Return makes the error that ended the work the result of a function, which defers it and may then use this package.
func Return(err *error) {
	if r := recover(); r != nil {
		f, ours := r.(failure)
		if !ours {
			panic(r)
		}
		*err = f.error
	}
}

// Catch does a piece of work and returns the error that ended it, or nil.
func Catch(work func()) (err error) {
	defer Return(&err)
	work()
	return nil
}

// OK ends the work if there is an error.
func OK(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns a value, or ends the work if there is an error.
func Get[T any](value T, err error) T {
	OK(err)
	return value
}

// Fail ends the work.
func Fail(format string, a ...any) { OK(fmt.Errorf(format, a...)) }

// Be ends the work unless a condition holds.
func Be(holds bool, format string, a ...any) {
	if !holds {
		Fail(format, a...)
	}
}

// Try does a piece of work and returns its value, or the error that ended it.
func Try[T any](work func() T) (value T, err error) {
	err = Catch(func() { value = work() })
	return value, err
}

// Each does a piece of work for each of n numbers from 0, at most 16 at a time, and ends if there are errors.
func Each(n int, work func(i int)) {
	var group sync.WaitGroup
	errs, gate := make([]error, n), make(chan struct{}, 16)
	for i := range n {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			errs[i] = Catch(func() { work(i) })
		})
	}
	group.Wait()
	OK(errors.Join(errs...))
}

// Get2 is Get for two values.
func Get2[T, U any](first T, second U, err error) (T, U) {
	OK(err)
	return first, second
}
