// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model is what the page of `csccm ui` and of the simulator shows: values only, as they are sent to the browser
// as JSON. Both sides fill the same types, so that one page draws both.
package model

import (
	"strings"
	"time"
)

// SchemaVersion is the version of the JSON that the page reads. A field may be added under the same version; a field
// that changes its meaning or goes needs a new one.
const SchemaVersion = 1

// Snapshot is everything that the page shows at one moment. Lists are sorted by ID, so that equal states are equal
// JSON.
type Snapshot struct {
	SchemaVersion int       `json:"schemaVersion"`
	At            time.Time `json:"at"`
	// Title is the page's heading, as "Cluster prod in CloudStack".
	Title   string   `json:"title"`
	Objects []Object `json:"objects"`
	Links   []Link   `json:"links"`
	// Views are the views that apply beside the map: checks, plan, timeline, nodes, faults. The page hides the others.
	Views []string `json:"views,omitempty"`
	// Sources are the systems that the snapshot was read from. What a source does not answer is shown as it was last
	// read.
	Sources []Source `json:"sources,omitempty"`
	// Controller is the controller manager; nil where there is none to look at.
	Controller *Controller `json:"controller,omitempty"`
	Checks     []Check     `json:"checks,omitempty"`
	// Plans has one entry for each Service for which the controller would do something.
	Plans    []Plan  `json:"plans,omitempty"`
	Nodes    []Node  `json:"nodes,omitempty"`
	Timeline []Entry `json:"timeline,omitempty"` // newest first
	Calls    []Calls `json:"calls,omitempty"`    // only the simulator knows them
	// Faults can be switched on the simulator's page only.
	Faults []Fault `json:"faults,omitempty"`
	// Speed is the multiple of real time at which the simulator's time passes. It is absent where there is no
	// simulator.
	Speed float64 `json:"speed,omitempty"`
	// Story is what the reader is to see: the chapter of a lesson.
	Story *Story `json:"story,omitempty"`
	// Missing says what could not be read, and why: the page shows it instead of an empty view.
	Missing []Missing `json:"missing,omitempty"`
}

// Source is a system that the snapshot was read from, and how that goes.
type Source struct {
	Name  string `json:"name"`  // Kubernetes or CloudStack
	State string `json:"state"` // ok, failing or connecting
	// Answered is when the source last answered; the zero time for never. All that is shown of a source that fails is
	// of then.
	Answered time.Time `json:"answered,omitempty,omitzero"`
	// Kinds are the kinds of objects that are read from this source.
	Kinds  []Kind `json:"kinds"`
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Addresses is how many public addresses the account has, of MaxAddresses; 0 of 0 where the limit is unknown or
	// there is none.
	Addresses    int `json:"addresses,omitempty"`
	MaxAddresses int `json:"maxAddresses,omitempty"`
}

// States of a Source.
const (
	SourceOK         = "ok"
	SourceFailing    = "failing"
	SourceConnecting = "connecting" // it has not answered yet
)

// Controller is the controller manager.
type Controller struct {
	Ready    int    `json:"ready"`    // Pods that are ready
	Replicas int    `json:"replicas"` // Pods that there are
	Leader   string `json:"leader,omitempty"`
	// Version is that of the Pods' image; several where they differ.
	Version string `json:"version,omitempty"`
	// Renewed is when the leader last renewed its lease: one that is older than the lease's duration means that nobody
	// leads.
	Renewed  time.Time `json:"renewed,omitempty,omitzero"`
	Duration int       `json:"leaseSeconds,omitempty"`
}

// Kind is what an object is; it decides its column on the map.
type Kind string

// Kinds, in the order of the map's columns.
const (
	KindService Kind = "service"
	KindAddress Kind = "address"
	KindRule    Kind = "rule"
	KindForward Kind = "forward" // a port forwarding rule
	KindNode    Kind = "node"
	KindVM      Kind = "vm"
	KindNetwork Kind = "network"
)

// Health is how well an object is; it decides its colour.
type Health string

// Healths.
const (
	HealthOK      Health = "ok"
	HealthPending Health = "pending" // being made or changed
	HealthWarning Health = "warning"
	HealthError   Health = "error"
	HealthOrphan  Health = "orphan"  // made by this cluster, and no Service has it
	HealthForeign Health = "foreign" // not the cluster's: shown only where it stands on a shared address
	HealthPlanned Health = "planned" // not there: the controller would make it
)

// Object is one box on the map.
type Object struct {
	// ID is stable between snapshots: "service/NAMESPACE/NAME", "node/NAME", or the kind and CloudStack's id.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Group is what many objects are folded into: a Service's namespace, a node's pool.
	Group  string `json:"group,omitempty"`
	Health Health `json:"health"`
	// Why are the reasons for a health that is not OK: conditions, findings, drift.
	Why []string `json:"why,omitempty"`
	// Label is the short second line of the box: ports of a rule, addresses of a node.
	Label string `json:"label,omitempty"`
	// Facts are shown in the details, in this order.
	Facts []Fact `json:"facts,omitempty"`
	// Commands show the same in a terminal, as "kubectl -n shop describe service web".
	Commands []string `json:"commands,omitempty"`
	// Deeds are what the simulator's page can do to the object.
	Deeds []Deed `json:"deeds,omitempty"`
}

// Deed is a button of an object on the simulator's page.
type Deed struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// Ports is what people call a rule: its public port, with the protocol if that is not TCP, and the port of the members.
func Ports(public, protocol, private string) string {
	if protocol = strings.ToLower(protocol); protocol != "" && protocol != "tcp" {
		public += "/" + protocol
	}
	return public + " → " + private
}

// Fact is a name and its value.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Facts makes facts of names and values; empty values are left out.
func Facts(pairs ...string) (out []Fact) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, Fact{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return out
}

// GroupID names all objects of a kind in a group as the end of a link: a rule that leads to all nodes of a pool has one
// link, where a link to each of them would be a million in a cluster with a thousand Services and a thousand nodes.
func GroupID(kind Kind, group string) string { return "group/" + string(kind) + "/" + group }

// Link leads from one object to another; both exist in the snapshot. Either may be a GroupID.
type Link struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Label  string `json:"label,omitempty"`
	Health Health `json:"health,omitempty"`
}

// Check is a finding of doctor.
type Check struct {
	Code     string  `json:"code"`
	Title    string  `json:"title"`
	Category string  `json:"category"`
	Status   string  `json:"status"` // ok, warning, error, skipped, as `csccm doctor -o json` has it
	Message  string  `json:"message,omitempty"`
	Remedy   string  `json:"remedy,omitempty"`
	Objects  []About `json:"objects,omitempty"`
	Link     string  `json:"link,omitempty"`
}

// About is an object that a check names.
type About struct {
	ID   string `json:"id,omitempty"` // of the object, if it is on the map
	Text string `json:"text"`
}

// Plan is what the controller would do for a Service now.
type Plan struct {
	Service string `json:"service"` // ID of the object
	// Refusal is why the Service cannot be served; Remedy what to do about it.
	Refusal string   `json:"refusal,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
	Actions []Action `json:"actions,omitempty"`
}

// Action is one line of a plan.
type Action struct {
	Sign  string `json:"sign"` // "+", "~" or "-"
	Label string `json:"label"`
}

// Node compares a Node with its VM.
type Node struct {
	Name       string   `json:"name"`
	Kubelet    string   `json:"kubelet"` // external, not external or unknown
	Evidence   string   `json:"evidence,omitempty"`
	ProviderID string   `json:"providerID,omitempty"`
	VMID       string   `json:"vmID,omitempty"`
	VMState    string   `json:"vmState,omitempty"`
	Ready      bool     `json:"ready"`
	Kubernetes []string `json:"kubernetesAddresses,omitempty"`
	CloudStack []string `json:"cloudstackAddresses,omitempty"`
	Health     Health   `json:"health"`
	Why        []string `json:"why,omitempty"`
}

// Entry is one moment of the time line.
type Entry struct {
	At time.Time `json:"at"`
	// Kind is event, drift, leader, call or fault.
	Kind    string `json:"kind"`
	Object  string `json:"object,omitempty"` // ID of the object, if it is on the map
	Reason  string `json:"reason"`
	Caller  string `json:"caller,omitempty"` // of a call
	Message string `json:"message,omitempty"`
	Warning bool   `json:"warning,omitempty"`
	Count   int    `json:"count,omitempty"` // 0 and 1 are the same
	// Milliseconds is how long a call took; of several, the longest.
	Milliseconds int64 `json:"milliseconds,omitempty"`
}

// Calls counts calls of one command with one result in the last minute.
type Calls struct {
	Command   string  `json:"command"`
	Code      string  `json:"code"` // the HTTP status, or an error's kind
	PerMinute float64 `json:"perMinute"`
}

// Fault is a failure that the simulator can play.
type Fault struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Group string `json:"group,omitempty"`
	// Command is the only command that the fault hits, or a pattern with *; empty for all. Hits is how often it has
	// hit.
	Command string `json:"command,omitempty"`
	Hits    int    `json:"hits,omitempty"`
	Enabled bool   `json:"enabled"`
}

// Story is a text beside the map.
type Story struct {
	Title string   `json:"title"`
	Text  []string `json:"text,omitempty"`  // paragraphs
	Look  []string `json:"look,omitempty"`  // what was seen
	Try   []string `json:"try,omitempty"`   // lines for a shell
	Sides []string `json:"sides,omitempty"` // groups of objects that the map shows apart, the first above
}

// Missing is a part that could not be read.
type Missing struct {
	Part   string `json:"part"` // checks, plans, timeline, nodes or objects
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
}

// Patch leads from one snapshot to the next. Objects and links that did not change are not in it; the other parts are
// sent whole where they changed, and are nil where they did not.
type Patch struct {
	At      time.Time `json:"at"`
	Title   *string   `json:"title,omitempty"`
	Speed   *float64  `json:"speed,omitempty"`
	Objects []Object  `json:"objects,omitempty"` // new or changed
	Removed []string  `json:"removed,omitempty"` // IDs of objects
	// Links are all links when one of them changed.
	Links   *[]Link   `json:"links,omitempty"`
	Views   *[]string `json:"views,omitempty"`
	Sources *[]Source `json:"sources,omitempty"`
	// Controller is sent where it changed; a controller that went away is one without Pods.
	Controller *Controller `json:"controller,omitempty"`
	Checks     *[]Check    `json:"checks,omitempty"`
	Plans      *[]Plan     `json:"plans,omitempty"`
	Nodes      *[]Node     `json:"nodes,omitempty"`
	Timeline   *[]Entry    `json:"timeline,omitempty"`
	Calls      *[]Calls    `json:"calls,omitempty"`
	Faults     *[]Fault    `json:"faults,omitempty"`
	Story      *Story      `json:"story,omitempty"`
	Missing    *[]Missing  `json:"missing,omitempty"`
}
