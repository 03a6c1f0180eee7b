// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Reason is the CamelCase reason of an Event.
type Reason string

// Reasons for refusing a Service before anything is changed.
const (
	ReasonInvalidAnnotation  Reason = "InvalidAnnotation"
	ReasonUnsupportedProto   Reason = "UnsupportedProtocol"
	ReasonMixedProtocols     Reason = "MixedProtocols"
	ReasonInvalidPort        Reason = "InvalidPort"
	ReasonReservedPort       Reason = "ReservedPort"
	ReasonNoNodePort         Reason = "NoNodePort"
	ReasonNoNodes            Reason = "NoNodes"
	ReasonSeveralNetworks    Reason = "NodesInSeveralNetworks"
	ReasonUnsupportedNetwork Reason = "UnsupportedNetwork"
	ReasonAddressUnavailable Reason = "AddressUnavailable"
	ReasonPortTaken          Reason = "PortTaken"
	ReasonSourceRanges       Reason = "SourceRangesNotEnforceable"
	ReasonNoSuchNetwork      Reason = "NoSuchNetwork"
	ReasonProjectChanged     Reason = "ProjectChanged"
	ReasonNoSuchProject      Reason = "NoSuchProject"
	ReasonNoSuchCertificate  Reason = "NoSuchCertificate"
	ReasonNotAllowed         Reason = "NotAllowed"
	ReasonUnsupportedMode    Reason = "UnsupportedMode"
	ReasonOtherClusterID     Reason = "OtherClusterID"
)

// Reasons of notices during a sync.
const (
	ReasonAddressAllocated  Reason = "AddressAllocated"
	ReasonAddressReleased   Reason = "AddressReleased"
	ReasonAddressKept       Reason = "AddressKept"
	ReasonAddressLost       Reason = "AddressLost"
	ReasonAddressLimit      Reason = "AddressLimit"
	ReasonNoFreeAddress     Reason = "NoFreeAddress"
	ReasonTaggingForbidden  Reason = "TaggingForbidden"
	ReasonTaggingFailed     Reason = "TaggingFailed"
	ReasonDriftRepaired     Reason = "DriftRepaired"
	ReasonForeignFirewall   Reason = "ForeignFirewallRule"
	ReasonRuleReplaced      Reason = "RuleReplaced"
	ReasonRuleReapplied     Reason = "RuleReapplied"
	ReasonNoBackends        Reason = "NoBackends"
	ReasonDefaultACL        Reason = "DefaultNetworkACL"
	ReasonBriefInterruption Reason = "BriefInterruption"
	ReasonNodeOutside       Reason = "NodeOutsideNetwork"
	ReasonUnverifiedRule    Reason = "UnverifiedRule"
	ReasonPortMoved         Reason = "PortMoved"
	ReasonAllForwarded      Reason = "AllPortsForwarded"
	ReasonNoHealthyNode     Reason = "NoHealthyNode"
)

// RefusalError says why a Service cannot be served as requested.
type RefusalError struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`          // what is wrong
	Remedy  string `json:"remedy,omitempty"` // what to do about it
	Port    int    `json:"port,omitempty"`   // the port in question; 0 if it is not about one port
	// After is how long the reason still holds; 0 if that is not known.
	After time.Duration `json:"-"`
}

func (r *RefusalError) Error() string {
	if r.Remedy == "" {
		return r.Message
	}
	return r.Message + "; " + r.Remedy
}

// Refuse returns a refusal.
func Refuse(reason Reason, message, remedy string) *RefusalError {
	return RefusePort(reason, message, remedy, 0)
}

// RefusePort returns a refusal because of a port.
func RefusePort(reason Reason, message, remedy string, port int) *RefusalError {
	return &RefusalError{Reason: reason, Message: message, Remedy: remedy, Port: port}
}

// Notice is the content of an Event.
type Notice struct {
	Warning bool   `json:"warning,omitempty"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Warning returns a notice that needs somebody's attention.
func Warning(reason Reason, message string) *Notice {
	return &Notice{Warning: true, Reason: reason, Message: message}
}

// EventRow documents one Reason. Links in its texts are relative to the folder docs.
type EventRow struct {
	Reason  Reason
	Warning bool
	// Condition means that the condition of the Service can have the reason as well: the Service is refused, or no node
	// serves it.
	Condition bool
	When      string
	// Means describes the consequences for clients, Pods and CloudStack.
	Means string
	// See are helpful command lines, in addition to those that list any Event.
	See    []string
	Remedy string
}

// WaitError asks for another sync later: nothing has failed, but something is not known yet.
type WaitError struct {
	Message string
	After   time.Duration
	// Notify makes the end of each job that the sync waits for call wake; nil if it does not wait for a job. Waiting
	// for a job is no failure.
	Notify func(wake func())
}

func (e *WaitError) Error() string { return e.Message }

// Running returns the WaitError of a sync that left a job running; nil for any other error.
func Running(err error) *WaitError {
	if wait := WaitOf(err); wait != nil && wait.Notify != nil {
		return wait
	}
	return nil
}

// WaitOf returns the WaitError that caused an error; nil if there is none.
func WaitOf(err error) *WaitError {
	wait, _ := errors.AsType[*WaitError](err)
	return wait
}

// RefusalOf returns the RefusalError that caused an error; nil if there is none.
func RefusalOf(err error) *RefusalError {
	refusal, _ := errors.AsType[*RefusalError](err)
	return refusal
}

// NoneEligible returns a notice if ports are forwarded and no member is eligible for them; nil otherwise.
func NoneEligible(f Facts, d Desired) *Notice {
	var why []string
	for _, m := range f.Members {
		if problem, ok := f.Ineligible[m.Node]; ok {
			why = append(why, m.Node+" ("+problem.Text+")")
		}
	}
	if len(d.Forwards) == 0 || len(d.Members) == 0 || len(why) < len(f.Members) {
		return nil
	}
	slices.Sort(why)
	return Warning(ReasonNoHealthyNode,
		"no node can serve the forwarded ports, which stay where they are: "+Some(why, 5))
}

// Some joins the first few of many names, and the number of the rest.
func Some(names []string, most int) string {
	if n := len(names); n > most {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", n-most))
	}
	return strings.Join(names, ", ")
}

// Moves returns notices about ports that were moved from one node to another, and why. done are the steps that were
// done.
func Moves(done []Step, subject *Subject) []Notice {
	type way struct{ from, to string }
	var ways []way
	ports := map[way][]string{}
	for _, u := range done {
		if u.Moves() {
			w := way{u.From, u.Member}
			if ports[w] == nil {
				ways = append(ways, w)
			}
			if !slices.Contains(ports[w], u.PortText()) {
				ports[w] = append(ports[w], u.PortText())
			}
		}
	}

	var out []Notice
	for _, w := range ways {
		out = append(out,
			Notice{
				Reason: ReasonPortMoved,
				Message: fmt.Sprintf("moved %s %s from node %s to %s: %s",
					english.PluralWord(len(ports[w]), "port", ""), strings.Join(ports[w], ", "),
					subject.node(w.from), subject.node(w.to), subject.WhyMoved(w.from).Text),
			})
	}

	return out
}

// unmanagedACL returns a notice about forwarded ports that the tier's network ACL list may not allow, because the
// controller does not manage the list. The list sees forwarded traffic with the node port.
func unmanagedACL(d Desired, n *Network) *Notice {
	if n == nil ||
		n.VPCID == "" ||
		len(d.Forwards) == 0 ||
		len(d.Ranges) == 0 ||
		d.ACLID != "" ||
		n.ACLName == defaultAllow ||
		n.ACLName == defaultDeny {
		return nil
	}

	var ports []string
	for _, f := range d.Forwards {
		ports = append(ports, portText(f.Protocol, f.PrivatePort))
	}

	return Warning(ReasonDefaultACL, fmt.Sprintf(
		"the tier's network ACL list %s is not changed (--manage-network-acls=false): allow %s to %s in it, "+
			"otherwise nobody reaches the forwarded ports",
		cmp.Or(n.ACLName, n.ACLID, "none"), strings.Join(annotation.Canonical(d.Ranges), ","),
		strings.Join(ports, ", ")))
}

// Announce returns notices, before the plan is done, about what it interrupts for a moment because CloudStack cannot
// change it in place.
func Announce(steps []Step, actual Actual) []Notice {
	var out []Notice
	removed := map[string]Step{} // by the id of the removed item
	for _, s := range steps {
		removed[s.removes()] = s
	}

	for _, s := range steps {
		brief := func(what string) { out = append(out, Notice{Reason: ReasonBriefInterruption, Message: what}) }
		const switched = ": new clients find it closed for some seconds, and open connections may end"
		replaced := map[string]Step{} // by the kind of the step that removes it
		for _, id := range s.Replaces {
			if g := removed[id]; g.Port == s.Port || s.Port == 0 {
				replaced[g.Kind] = g
			}
		}

		rule, replacesRule := replaced[DeleteRule]
		_, replacesForward := replaced[DeleteForward]
		switch {
		case s.Kind == CreateRule && replacesRule:
			text := fmt.Sprintf("the rule %s is replaced: %s", s.ofPort(), rule.Note)
			// No call can change such a rule in place: updateLoadBalancerRule fails for it, and updateLoadBalancer only
			// changes whether it is displayed.
			if a := actual.Find(s.AddressID); s.Internal &&
				!slices.ContainsFunc(a.Rules, func(r Item) bool { return removed[r.ID].Kind == "" }) {
				text += "; CloudStack destroys the internal load balancer's virtual machine with the last rule, and " +
					"the Service gets no traffic until another one has started"
			}
			out = append(out, Notice{Reason: ReasonRuleReplaced, Message: text})

		case s.Kind == CreateRule && replacesForward:
			brief(fmt.Sprintf("port %d%s is switched from port forwarding to the load balancer%s", s.Port, s.text(),
				switched))
		case s.Kind == CreateForward && replacesRule:
			brief(fmt.Sprintf("port %s%s is switched from the load balancer to port forwarding%s", s.PortText(),
				s.text(), switched))
		case s.Kind == UpdateRule && s.Note != "":
			out = append(out,
				Notice{
					Reason: ReasonRuleReapplied,
					Message: fmt.Sprintf("the protocol of port %d on %s becomes %s: %s", s.Port, s.IP, s.Rule.Protocol,
						s.Note),
				})

		case s.Access.Protocol != "" && len(s.Replaces) > 0:
			brief(s.Access.Ports() + " is closed for a moment for " + strings.Join(s.Access.CIDRs, ",") +
				": its old rule allows more sources than the Service now does, and CloudStack cannot have both")
		}
	}

	return out
}

// Warnings returns what may keep clients from the Service, or let others reach it, although CloudStack is in the
// desired state.
func Warnings(f Facts, d Desired, target *Address) []Notice {
	out := foreignAccess(d, target)
	for _, w := range []*Notice{DefaultACL(d, f.Network), unmanagedACL(d, f.Network), AllForwarded(f)} {
		if w != nil {
			out = append(out, *w)
		}
	}
	return out
}

// foreignAccess returns warnings about firewall rules of others that let sources reach the Service's ports which the
// Service itself does not allow.
func foreignAccess(d Desired, target *Address) []Notice {
	if target == nil || !d.Firewall {
		return nil
	}

	var out []Notice
	wanted := d.Opened()
	for _, f := range access.Sorted(rulesOf(target.firewall(false))) {
		if annotation.Contain(d.Ranges, f.CIDRs) {
			continue
		}
		for _, port := range wanted[f.Protocol] {
			if f.EndPort == 0 || f.StartPort <= port && port <= f.EndPort {
				out = append(out, *Warning(ReasonForeignFirewall, fmt.Sprintf(
					"a firewall rule on %s (%s from %s), which is not of this Service, lets others reach port %d; "+
						"delete it in CloudStack if that is not meant",
					target.IP, f.Ports(), strings.Join(f.CIDRs, ","), port)))
				break
			}
		}
	}

	return out
}

// DefaultACL returns a warning if clients should have access and the tier has the network ACL list default_deny, which
// nobody can change.
func DefaultACL(d Desired, n *Network) *Notice {
	if n == nil || n.ACLName != defaultDeny || d.Absent || len(d.Ranges) == 0 {
		return nil
	}
	text := "denies all traffic and cannot be changed; only routers that do not apply it to public load balancers " +
		"let clients through; "
	switch {
	case d.Internal:
		text = "denies other tiers access to the internal load balancer and cannot be changed; "
	case len(d.Forwards) > 0:
		text = "denies access to forwarded ports and cannot be changed; "
	}
	return Warning(ReasonDefaultACL,
		"the tier's network ACL list default_deny "+text+
			"give the tier a network ACL list of its own, in which the controller can allow the Service's sources")
}

// ProjectChanged refuses a Service that names another project than the one where it has its address. An empty name
// means no project.
func ProjectChanged(named, has string) *RefusalError {
	names := fmt.Sprintf("annotation %s names project %q", annotation.Project, named)
	if named == "" {
		names = "annotation " + annotation.Project + " names no project"
	}
	in, back := "project "+has, "set the annotation to "+has+" again"
	if has == "" {
		in, back = "no project", "remove the annotation, or project-id from the cloud-config"
	}
	return Refuse(ReasonProjectChanged,
		names+", and the Service has an address in "+in+", which CloudStack cannot move",
		back+", or delete and recreate the Service")
}
