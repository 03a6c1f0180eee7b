// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault selects the calls that fail, and how.
package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
)

// Kind is how a call fails.
type Kind int

// Kinds of faults.
const (
	// ErrorBefore answers an HTTP error; the command does not take effect.
	ErrorBefore Kind = iota + 1
	// LostAnswer executes the command and closes the connection without an answer.
	LostAnswer
	// CutBefore closes the connection; the command does not take effect.
	CutBefore
	// JobFails answers normally; the job then fails with errorcode 530.
	JobFails
	// Delay delays the processing of the call by Delay.
	Delay
	// JobNeverEnds answers normally; the job stays pending forever.
	JobNeverEnds
	// Restart executes the command and restarts the management server after its answer (see Simulator.Restart);
	// Delay is the time that the server is away.
	Restart
	// Throttled answers 429 like API throttling; Delay is the retry time in the error text (default 1 s).
	Throttled
	// Maintenance answers 503 to asynchronous commands, like a server that is being shut down.
	Maintenance
	// Quota executes the command as if the resource limits of the owner were exhausted.
	Quota
	// Capacity executes associateIpAddress as if there were no free public address, and createKubernetesCluster and
	// scaleKubernetesCluster as if the hosts had no room for the VMs.
	Capacity
	// RouterRefuses makes the virtual router refuse the change: the job fails with the text of the command and
	// leaves the objects in the state in which CloudStack leaves them. A synchronous command answers 534.
	RouterRefuses
	// RouterLoses executes the command; its rule, or all rules of the network that is restarted, are then missing on
	// the virtual router, although lists show them, until the network is restarted with clean-up.
	RouterLoses
	// NodesNotReady makes the job of a Kubernetes cluster wait until CloudStack's time-out for nodes that do not join.
	NodesNotReady
	// APIUnreachable makes the job of a Kubernetes cluster wait until CloudStack's time-out for its API.
	APIUnreachable
)

// faultKinds are the names of the kinds in the text of a fault.
var faultKinds = []struct {
	kind Kind
	name string
}{
	{ErrorBefore, "error"}, {CutBefore, "cut-before"}, {LostAnswer, "cut-after"}, {Delay, "delay"},
	{JobFails, "job-fails"}, {JobNeverEnds, "job-never-ends"}, {Restart, "restart"}, {Throttled, "throttled"},
	{Maintenance, "maintenance"}, {Quota, "quota"}, {Capacity, "capacity"}, {RouterRefuses, "router-refuses"},
	{RouterLoses, "router-loses"},
	{NodesNotReady, "nodes-not-ready"}, {APIUnreachable, "api-unreachable"},
}

// String returns the name of the kind in the text of a fault.
func (k Kind) String() string {
	for _, n := range faultKinds {
		if n.kind == k {
			return n.name
		}
	}
	return fmt.Sprintf("kind(%d)", int(k))
}

// Fault makes calls of a command fail. Without Nth, Count and Probability, it hits every matching call.
type Fault struct {
	Command string // exact name, or a pattern with *; empty: every command
	Caller  string // user name; empty: everyone
	// Nth: hit from the n-th matching call after the fault was armed, counted from 1; without Count, only that call.
	Nth   int
	Count int // hit at most this many calls; 0: no limit
	// Probability: hit a matching call with this probability; 0: always. The random sequence depends on Options.Seed.
	Probability float64
	Kind        Kind
	Delay       time.Duration // FaultDelay, FaultThrottled, FaultRestart
	// HTTPStatus, CSErrorCode and Text are the answer of FaultErrorBefore (default: 530, 9999 and CloudStack's generic
	// text). For FaultJobFails, HTTPStatus and Text are the errorcode and errortext.
	HTTPStatus  int
	CSErrorCode int
	Text        string
}

// Check returns an error if the fault is invalid.
func (f Fault) Check() error {
	takes := faultOptions[f.Kind]
	switch {
	case !slices.ContainsFunc(faultKinds, func(n struct {
		kind Kind
		name string
	}) bool {
		return n.kind == f.Kind
	}):
		return fmt.Errorf("fault kind %d is not known", f.Kind)
	case f.Nth < 0 || f.Count < 0:
		return fmt.Errorf("nth and count must be 1 or more")
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("p %g must lie between 0 and 1", f.Probability)
	case f.Delay < 0 || f.Kind == Delay && f.Delay == 0:
		return fmt.Errorf("%s needs a positive delay, such as delay=2s", f.Kind)
	case f.Delay > 0 && !strings.Contains(takes, "delay"):
		return fmt.Errorf("%s takes no delay", f.Kind)
	case f.HTTPStatus != 0 && !strings.Contains(takes, "code"):
		return fmt.Errorf("%s takes no code: its code is fixed", f.Kind)
	case f.HTTPStatus != 0 && (f.HTTPStatus < 400 || f.HTTPStatus > 599):
		return fmt.Errorf("code %d must lie between 400 and 599", f.HTTPStatus)
	case f.CSErrorCode != 0 && !strings.Contains(takes, "cserrorcode"):
		return fmt.Errorf("%s takes no cserrorcode", f.Kind)
	case f.Text != "" && !strings.Contains(takes, "text"):
		return fmt.Errorf("%s takes no text: its text is fixed", f.Kind)
	}

	return f.checkCommand()
}

// faultOptions are the options of a kind in addition to those of every kind: nth, count, p and caller.
var faultOptions = map[Kind]string{
	ErrorBefore: "code cserrorcode text", JobFails: "code text", Delay: "delay", Restart: "delay", Throttled: "delay",
}

// checkCommand checks that the pattern matches a command that the fault can affect.
func (f Fault) checkCommand() error {
	cat, err := catalogue.Load()
	if err != nil {
		return err
	}

	known, affects := false, false
	for i := range cat.APIs {
		a := &cat.APIs[i]
		if f.MatchesCommand(a.Name) {
			known = true
			affects = affects || f.affects(a)
		}
	}

	if f.Command == "login" {
		known, affects = true, f.affects(nil)
	}

	switch {
	case !known:
		return fmt.Errorf("command %q: CloudStack has no such command, nor one that the pattern matches (mind upper "+
			"and lower case)", f.Command)
	case !affects:
		return fmt.Errorf("%s does not affect %s: %s", f.Kind, f.Command,
			"name a command that the fault can affect, usually an asynchronous one")
	}

	return nil
}

// affects reports whether a fault of this kind can affect the command; nil is login or an unknown command.
func (f Fault) affects(a *catalogue.API) bool {
	switch f.Kind { //nolint:exhaustive // the other kinds can hit every command
	case JobFails, JobNeverEnds, Maintenance:
		return a != nil && a.Async
	case RouterRefuses:
		return a != nil && (a.Async || a.Name == "enableStaticNat")
	case RouterLoses:
		return named(a, "createLoadBalancerRule", "assignToLoadBalancerRule", "updateLoadBalancerRule",
			"createFirewallRule", "createPortForwardingRule", "restartNetwork")
	case Capacity:
		return named(a, "associateIpAddress", "createKubernetesCluster", "scaleKubernetesCluster")
	case NodesNotReady:
		return named(a, "createKubernetesCluster", "scaleKubernetesCluster", "upgradeKubernetesCluster")
	case APIUnreachable:
		return named(a, "createKubernetesCluster", "startKubernetesCluster")
	case Quota:
		return a != nil &&
			(strings.HasPrefix(a.Name, "create") ||
				strings.HasPrefix(a.Name, "associate") ||
				strings.HasPrefix(a.Name, "deploy") ||
				strings.HasPrefix(a.Name, "reserve") ||
				strings.HasPrefix(a.Name, "add") ||
				strings.HasPrefix(a.Name, "recover"))
	}

	return true
}

func named(a *catalogue.API, names ...string) bool { return a != nil && slices.Contains(names, a.Name) }

// MatchesCommand reports whether the name matches the pattern of the fault.
func (f Fault) MatchesCommand(name string) bool {
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
