// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FaultKind says how a call goes wrong.
type FaultKind int

// Kinds of faults.
const (
	// FaultErrorBefore answers an HTTP error; the command has no effect.
	FaultErrorBefore FaultKind = iota + 1
	// FaultLostAnswer lets the command take effect and cuts the connection instead of answering.
	FaultLostAnswer
	// FaultCutBefore cuts the connection before the command has any effect.
	FaultCutBefore
	// FaultJobFails answers normally; the job then ends with errorcode 530.
	FaultJobFails
	// FaultDelay holds the call for Delay before it is looked at.
	FaultDelay
	// FaultJobNeverEnds answers normally; the job stays pending for good.
	FaultJobNeverEnds
	// FaultRestart lets the command take effect and restarts the management server after its answer (see
	// Simulator.Restart); Delay is how long the server is away.
	FaultRestart
	// FaultThrottled answers 429 as API throttling does; Delay is the time that the text asks to wait (1 s).
	FaultThrottled
	// FaultMaintenance answers 503 to asynchronous commands, as a server that is being shut down.
	FaultMaintenance
	// FaultQuota lets the command find its owner's resource limits exhausted.
	FaultQuota
	// FaultCapacity lets associateIpAddress find no free public address.
	FaultCapacity
	// FaultRouterRefuses lets the virtual router refuse the change: the job fails with the command's own text and
	// leaves what a failed one leaves on the real server; a synchronous command answers 534.
	FaultRouterRefuses
)

// faultKinds are the names of the kinds in a fault's text.
var faultKinds = []struct {
	kind FaultKind
	name string
}{
	{FaultErrorBefore, "error"}, {FaultCutBefore, "cut-before"}, {FaultLostAnswer, "cut-after"}, {FaultDelay, "delay"},
	{FaultJobFails, "job-fails"}, {FaultJobNeverEnds, "job-never-ends"}, {FaultRestart, "restart"}, {FaultThrottled, "throttled"},
	{FaultMaintenance, "maintenance"}, {FaultQuota, "quota"}, {FaultCapacity, "capacity"}, {FaultRouterRefuses, "router-refuses"},
}

// String is the kind's name in a fault's text.
func (k FaultKind) String() string {
	for _, n := range faultKinds {
		if n.kind == k {
			return n.name
		}
	}
	return fmt.Sprintf("kind(%d)", int(k))
}

// Fault makes calls of a command go wrong. Without Nth, Count and
// Probability every matching call is struck.
type Fault struct {
	Command     string  // exact name, or a pattern with *; empty: every command
	Caller      string  // user name; empty: everyone
	Nth         int     // strike from the n-th matching call after the injection, from 1; without Count only that one
	Count       int     // strike at most so many calls; 0: no bound
	Probability float64 // strike a matching call with this chance; 0: always. The sequence follows from Options.Seed
	Kind        FaultKind
	Delay       time.Duration // FaultDelay, FaultThrottled, FaultRestart
	// HTTPStatus, CSErrorCode and Text are those of FaultErrorBefore (default 530, 9999 and the server's
	// generic text). HTTPStatus and Text are also errorcode and errortext of FaultJobFails.
	HTTPStatus  int
	CSErrorCode int
	Text        string
}

// Check tells what is wrong with the fault; nil if it can be injected.
func (f Fault) Check() error {
	takes := faultOptions[f.Kind]
	switch {
	case !slices.ContainsFunc(faultKinds, func(n struct {
		kind FaultKind
		name string
	}) bool {
		return n.kind == f.Kind
	}):
		return fmt.Errorf("fault kind %d is not known", f.Kind)
	case f.Nth < 0 || f.Count < 0:
		return fmt.Errorf("nth and count must be 1 or more")
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("p %g must lie between 0 and 1", f.Probability)
	case f.Delay < 0 || f.Kind == FaultDelay && f.Delay == 0:
		return fmt.Errorf("%s needs a positive delay, such as delay=2s", f.Kind)
	case f.Delay > 0 && !strings.Contains(takes, "delay"):
		return fmt.Errorf("%s takes no delay", f.Kind)
	case f.HTTPStatus != 0 && !strings.Contains(takes, "code"):
		return fmt.Errorf("%s takes no code: it has the server's own", f.Kind)
	case f.HTTPStatus != 0 && (f.HTTPStatus < 400 || f.HTTPStatus > 599):
		return fmt.Errorf("code %d must lie between 400 and 599", f.HTTPStatus)
	case f.CSErrorCode != 0 && !strings.Contains(takes, "cserrorcode"):
		return fmt.Errorf("%s takes no cserrorcode", f.Kind)
	case f.Text != "" && !strings.Contains(takes, "text"):
		return fmt.Errorf("%s takes no text: it has the server's own", f.Kind)
	}
	return f.checkCommand()
}

// faultOptions are the options of a kind beside those of all: nth, count, p and caller.
var faultOptions = map[FaultKind]string{
	FaultErrorBefore: "code cserrorcode text", FaultJobFails: "code text", FaultDelay: "delay", FaultRestart: "delay", FaultThrottled: "delay",
}

// checkCommand wants the pattern to match a command that the fault can strike.
func (f Fault) checkCommand() error {
	cat, err := loadCatalogue()
	if err != nil {
		return err
	}
	known, strikes := false, false
	for i := range cat.APIs {
		a := &cat.APIs[i]
		if f.matchesCommand(a.Name) {
			known = true
			strikes = strikes || f.strikes(a)
		}
	}
	if f.Command == "login" {
		known, strikes = true, f.strikes(nil)
	}
	switch {
	case !known:
		return fmt.Errorf("command %q: CloudStack has no such command, nor one that the pattern matches (mind upper and lower case)", f.Command)
	case !strikes:
		return fmt.Errorf("%s has nothing to strike in %s: %s", f.Kind, f.Command, "it needs a command that the fault has to do with, most often an asynchronous one")
	}
	return nil
}

// strikes tells whether the fault's kind has to do with the command; nil is login or an unknown one.
func (f Fault) strikes(a *apiSpec) bool {
	switch f.Kind { //nolint:exhaustive // the others strike anything
	case FaultJobFails, FaultJobNeverEnds, FaultMaintenance:
		return a != nil && a.Async
	case FaultRouterRefuses:
		return a != nil && (a.Async || a.Name == "enableStaticNat")
	case FaultCapacity:
		return a != nil && a.Name == "associateIpAddress"
	case FaultQuota:
		return a != nil && (strings.HasPrefix(a.Name, "create") || strings.HasPrefix(a.Name, "associate") || strings.HasPrefix(a.Name, "deploy") ||
			strings.HasPrefix(a.Name, "reserve") || strings.HasPrefix(a.Name, "add") || strings.HasPrefix(a.Name, "recover"))
	}
	return true
}

// matchesCommand compares a name with the fault's pattern.
func (f Fault) matchesCommand(name string) bool {
	if f.Command == "" || f.Command == name {
		return true
	}
	if !strings.Contains(f.Command, "*") {
		return false
	}
	parts := strings.Split(f.Command, "*")
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return strings.HasSuffix(name, last)
}
