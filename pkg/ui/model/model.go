// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model is what the page of `csccm ui` and of the simulator shows: values only, as they are sent to the browser
// as JSON. Both sides fill the same types, so that one page draws both.
package model

import (
	"strings"
	"time"
)

// SchemaVersion is the version of the JSON that the page reads. New fields keep the version; a changed meaning or a
// removed field needs a new one.
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
	// Sources are the systems that the snapshot was read from. Objects of a source that does not answer are shown as
	// they were last read.
	Sources []Source `json:"sources,omitempty"`
	// Controller is the controller manager; nil if the snapshot has none.
	Controller *Controller `json:"controller,omitempty"`
	Checks     []Check     `json:"checks,omitempty"`
	// Plans has one entry for each Service for which the controller would do something.
	Plans    []Plan  `json:"plans,omitempty"`
	Nodes    []Node  `json:"nodes,omitempty"`
	Timeline []Entry `json:"timeline,omitempty"` // newest first
	Calls    []Calls `json:"calls,omitempty"`    // only the simulator knows them
	// Faults are set for the simulator's page only.
	Faults []Fault `json:"faults,omitempty"`
	// Speed is how many times faster than real time the simulator's time passes; absent without a simulator.
	Speed float64 `json:"speed,omitempty"`
	// Story is the text of the current chapter of a lesson.
	Story *Story `json:"story,omitempty"`
	// Missing says what could not be read, and why: the page shows it instead of an empty view.
	Missing []Missing `json:"missing,omitempty"`
}

// Source is a system that the snapshot was read from, and its state.
type Source struct {
	Name  string `json:"name"`  // Kubernetes or CloudStack
	State string `json:"state"` // ok, failing or connecting
	// Answered is when the source last answered; the zero time means never. The objects of a failing source are as
	// they were then.
	Answered time.Time `json:"answered,omitempty,omitzero"`
	// Kinds are the kinds of objects that are read from this source.
	Kinds  []Kind `json:"kinds"`
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Addresses is how many public addresses the account has, and MaxAddresses its limit; both are 0 if the limit is
	// unknown or there is none.
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
	Replicas int    `json:"replicas"` // all Pods
	Leader   string `json:"leader,omitempty"`
	// Version is the version of the Pods' image; several if they differ.
	Version string `json:"version,omitempty"`
	// Renewed is when the leader last renewed its lease. If that is longer ago than the lease's duration, there is no
	// leader.
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
	HealthOrphan  Health = "orphan"  // created by this cluster, but no Service uses it
	HealthForeign Health = "foreign" // not the cluster's: shown only if it is on a shared address
	HealthPlanned Health = "planned" // does not exist: the controller would create it
)

// Object is one box on the map.
type Object struct {
	// ID is stable between snapshots: "service/NAMESPACE/NAME", "node/NAME", or the kind and CloudStack's id.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Group is the name under which the page folds many objects: a Service's namespace, a node's pool.
	Group  string `json:"group,omitempty"`
	Health Health `json:"health"`
	// Why are the reasons if Health is not OK: conditions, findings, drift.
	Why []string `json:"why,omitempty"`
	// Label is the short second line of the box: ports of a rule, addresses of a node.
	Label string `json:"label,omitempty"`
	// Facts are shown in the details, in this order.
	Facts []Fact `json:"facts,omitempty"`
	// Commands show the object in a terminal, such as "kubectl -n shop describe service web".
	Commands []string `json:"commands,omitempty"`
	// Deeds are the buttons of the object on the simulator's page.
	Deeds []Deed `json:"deeds,omitempty"`
}

// Deed is a button of an object on the simulator's page.
type Deed struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// Ports returns the name of a rule: its public port, with the protocol if that is not TCP, and the port of the
// members.
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

// GroupID returns an ID that stands for all objects of a kind in a group as the end of a link. A rule that leads to
// all nodes of a pool needs one link; links to each node would be a million in a cluster with a thousand Services and
// a thousand nodes.
func GroupID(kind Kind, group string) string { return "group/" + string(kind) + "/" + group }

// Link leads from one object to another. Both ends are in the snapshot, or are a GroupID.
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
	// Command is the only command that the fault affects, or a pattern with *; empty for all. Hits is how often it
	// took effect.
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

// Patch turns one snapshot into the next. Objects that did not change are left out. The other parts are sent whole if
// they changed, and are nil otherwise.
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
	// Controller is set if it changed; a zero Controller means that there is none any more.
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
