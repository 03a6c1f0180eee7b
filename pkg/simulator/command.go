// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "k8s.io/utils/clock"

// command is an implemented command. Exactly one of run and submit is set.
type command struct {
	name string
	// refs maps each parameter of type uuid (or list of uuid) to the kind of object that it refers to.
	refs map[string]refKind
	// order lists the parameters whose processing order is known.
	order []string
	// write is set when run changes state.
	write bool
	// lock returns the name of the row that the create phase locks, as CloudStack does.
	lock func(*call) string
	// run answers a synchronous command; its result is the value of the answer's top-level key.
	run func(*call) (any, error)
	// submit validates an asynchronous command, runs its create phase and returns the job.
	submit func(*call) (*jobSpec, error)
	// class is the last part of the Java class name that jobs show.
	class string
	// wrapper is the top-level key of the answer, if it is not the command's name.
	wrapper string
}

// server is what commands use of the server that runs them.
type server struct {
	clock    clock.WithTicker
	latency  LatencyProfile
	cat      *catalogue
	sessions *sessions
	throttle throttle
}
