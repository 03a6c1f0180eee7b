// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire is the protocol of the CloudStack API: requests, signatures, sessions, parameters, lists, answers and
// errors, and the checks that commands of all families share.
package wire

import (
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// LockIP returns a function for Command.Lock that locks the row of the address that a parameter refers to.
func LockIP(param string) func(*Call) string {
	return func(c *Call) string {
		if ip := Arg[*store.PublicIP](c, param); ip != nil {
			return "ip/" + ip.UUID
		}
		return ""
	}
}

// eventLabels are the labels of ids in the texts of events, by the type of the object.
var eventLabels = map[string]string{
	"Domain":           "Domain Id",
	"Account":          "Account Id",
	"User":             "User Id",
	"Role":             "Role Id",
	"Project":          "Project Id",
	"VirtualMachine":   "Vm Id",
	"Network":          "Network Id",
	"Vpc":              "Vpc Id",
	"NetworkAcl":       "Network ACL Id",
	"NetworkAclItem":   "Network ACL Item Id",
	"IpAddress":        "IP Id",
	"FirewallRule":     "Rule Id",
	"LoadBalancerRule": "Load balancer Id",
}

// Records returns the event of a command on the object of type resource that param refers to, or that the command
// creates if param is "".
func Records(kind, phrase, resource, param string) *store.EventSpec {
	return &store.EventSpec{Kind: kind, Phrase: phrase, Label: eventLabels[resource], Resource: resource, Param: param}
}

// Command is an implemented command. Exactly one of Run and Submit is set.
type Command struct {
	Name string
	// ID is the kind of object that the parameters id and ids refer to; RefNone: the type of the event's resource.
	ID store.RefKind
	// Refs lists uuid parameters (or lists) that refer to another kind of object than in CommonRefs.
	Refs map[string]store.RefKind
	// Order lists the parameters whose processing order is known, separated by blanks.
	Order string
	// Without lists CloudStack's parameters that the simulator does not implement, separated by blanks. A call with
	// one of them is refused.
	Without string
	// Write is set when Run changes state.
	Write bool
	// Lock returns the name of the row that the create phase locks, as CloudStack does.
	Lock func(*Call) string
	// Busy reports whether the job of an earlier call still holds the row that the create phase locks.
	Busy func(*Call) bool
	// Run answers a synchronous command; its result is the value of the answer's top-level key.
	Run func(*Call) (any, error)
	// Submit validates an asynchronous command, runs its create phase and returns the job.
	Submit func(*Call) (*JobSpec, error)
	// Class is the Java class that jobs show, without CloudStack's prefix, or its package if the class is named like
	// the command.
	Class string
	// ByAdmin is set if root admins use another class: with admin. instead of user., and with the suffix ByAdmin.
	ByAdmin bool
	// Event describes the events that the command records; nil: none.
	Event *store.EventSpec
	// Wrapper is the top-level key of the answer, if it is not derived from the command's name.
	Wrapper string
}

// Kind returns the kind of object that a parameter refers to.
func (c *Command) Kind(param string) store.RefKind {
	k, ok := c.Refs[param]
	switch {
	case ok:
		return k
	case param != "id" && param != "ids":
		return store.CommonRefs[param]
	case c.ID == store.RefNone && c.Event != nil:
		return store.ResourceKinds[c.Event.Resource]
	}
	return c.ID
}

// JavaClass returns the Java class of the command for a caller. Some commands have another class for root admins.
func (c *Command) JavaClass(root bool) string {
	class := c.Class
	if !strings.HasSuffix(class, "Cmd") {
		class += "." + strings.ToUpper(c.Name[:1]) + c.Name[1:] + "Cmd"
	}
	if c.ByAdmin && root {
		return "admin" + strings.TrimPrefix(class, "user") + "ByAdmin"
	}
	return class
}

// Server is the part of the server that commands use.
type Server struct {
	Clock    clock.WithTicker
	Latency  Profile // at normal speed; Profile() returns the current durations
	Cat      *catalogue.Catalogue
	Sessions *Sessions
	Throttle throttle
	Inside   ClusterInside // nil: whatever CloudStack waits for in the VMs of clusters always succeeds

	profile atomic.Pointer[activeProfile] // nil: normal speed
}

// JobSpec is the job that an asynchronous command returns after its create phase.
type JobSpec struct {
	ObjectID     string // set for async-create commands: the new object's UUID
	InstanceType string // shown as jobinstancetype; "" omits it and jobinstanceid
	InstanceID   string
	Subject      any // the object whose list items carry jobid and jobstatus while the job is pending
	// Begin changes objects while the job runs, after a part of its run time. It excludes Steps.
	Begin func(now time.Time)
	// Steps are the parts of the job before Run. They replace the command's job time.
	Steps []store.JobStep
	// Run does the work when the job ends. Its result becomes jobresult.
	Run func(now time.Time) (any, error)
	// Undo reverts the create phase if the job fails.
	Undo func()
	// Refused is the error text if the router refuses the change; "" for a general text.
	Refused string
	// After delays the end of the job until this time, if that is later than the end of its run time.
	After time.Time
}
