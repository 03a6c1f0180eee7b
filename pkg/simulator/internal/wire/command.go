// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// LockIP locks the row of the address that a parameter names.
func LockIP(param string) func(*Call) string {
	return func(c *Call) string {
		if ip := Arg[*store.PublicIP](c, param); ip != nil {
			return "ip/" + ip.UUID
		}
		return ""
	}
}

// Command is an implemented command. Exactly one of run and submit is set.
type Command struct {
	Name string
	// refs maps each parameter of type uuid (or list of uuid) to the kind of object that it refers to.
	Refs map[string]store.RefKind
	// order lists the parameters whose processing order is known.
	Order []string
	// write is set when run changes state.
	Write bool
	// lock returns the name of the row that the create phase locks, as CloudStack does.
	Lock func(*Call) string
	// run answers a synchronous command; its result is the value of the answer's top-level key.
	Run func(*Call) (any, error)
	// submit validates an asynchronous command, runs its create phase and returns the job.
	Submit func(*Call) (*JobSpec, error)
	// class is the last part of the Java class name that jobs show.
	Class string
	// wrapper is the top-level key of the answer, if it is not the command's name.
	Wrapper string
}

// Server is what commands use of the server that runs them.
type Server struct {
	Clock    clock.WithTicker
	Latency  Profile
	Cat      *catalogue.Catalogue
	Sessions *Sessions
	Throttle throttle
}

// JobSpec is what an asynchronous command hands back after its create phase.
type JobSpec struct {
	ObjectID     string // set for async-create commands: the new object's UUID
	InstanceType string // shown as jobinstancetype; "" leaves both members out
	InstanceID   string
	Subject      any // the object whose list items carry jobid and jobstatus while the job is pending
	// begin is seen while the job runs: it happens when a part of the job's run time has passed.
	Begin func(now time.Time)
	// run does the work when the job's time has come; its value becomes jobresult.
	Run func(now time.Time) (any, error)
	// undo takes the create phase back when the job fails.
	Undo func()
	// refused is how the job ends when the router refuses; "" for a general text.
	Refused string
	// after delays the job until the moment given, if that is later than its own run time.
	After time.Time
}
