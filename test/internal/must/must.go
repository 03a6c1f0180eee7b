// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package must stops a function at the first error, like require in a test, for code that is not a test.
package must

import (
	"errors"
	"fmt"
	"sync"
)

// failure is the value that OK panics with.
type failure struct{ error }

// Return sets *err to the error that ended the work. A function that uses this package defers it.
func Return(err *error) {
	if r := recover(); r != nil {
		f, ours := r.(failure)
		if !ours {
			panic(r)
		}
		*err = f.error
	}
}

// Catch runs work and returns the error that ended it, or nil.
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

// Be ends the work unless the condition holds.
func Be(holds bool, format string, a ...any) {
	if !holds {
		Fail(format, a...)
	}
}

// Try runs work and returns its value, or the error that ended it.
func Try[T any](work func() T) (value T, err error) {
	err = Catch(func() { value = work() })
	return value, err
}

// Each runs work for each number from 0 to n-1, at most 16 at a time, and ends the caller's work if there are errors.
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

// Get2 is like Get, for two values.
func Get2[T, U any](first T, second U, err error) (T, U) {
	OK(err)
	return first, second
}
