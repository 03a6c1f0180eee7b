// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Records is what the controller records about a Service's addresses, in annotations of the Service. It survives
// restarts, and the controller finds the other parts of a load balancer through it.
type Records struct {
	Addresses []AddressRecord
	Pending   []PendingAllocation
}

// AddressRecord is one public address that the Service uses.
type AddressRecord struct {
	ID        string `json:"id"`
	IP        string `json:"ip"`
	NetworkID string `json:"network,omitempty"`
	// Allocated is true when this controller (or, at takeover, its predecessor) acquired the address.
	Allocated bool `json:"allocated,omitempty"`
	// Tagged is true when ownership tags were set.
	Tagged bool `json:"tagged,omitempty"`
	// VPCID is the VPC of an address that belongs to a VPC; NetworkID then is the tier.
	VPCID string `json:"vpc,omitempty"`
	// ProjectID is the project of the address, if the Service names a project itself.
	ProjectID string `json:"project,omitempty"`
	// Internal marks an address of a VPC tier; ID is then derived from the tier's ID.
	Internal bool `json:"internal,omitempty"`
	// Sticky is true when rules on it may have stickiness policies, which no list of rules shows.
	Sticky bool `json:"sticky,omitempty"`
	// Acquired is when the account acquired the address, as CloudStack reports it. An address that was released and
	// acquired again counts as another one, although its ID is the same.
	Acquired string `json:"acquired,omitempty"`
	// GuestOf is the namespace that owns the address, because one of its Services had it first; empty if that is the
	// Service's own namespace. If the role may not set tags, GuestOf is the only proof of the owner after the owning
	// namespace's Service is deleted.
	GuestOf string `json:"guestOf,omitempty"`
	// Opened lists the ports that the Service may have on the address, such as "tcp:80,443 udp:53". A guest keeps them.
	// If the answer to the creation of a firewall rule was lost, Opened distinguishes this rule from one that somebody
	// else created.
	Opened string `json:"opened,omitempty"`
	// Forwarded lists the ports that may be forwarded for the Service, in the format of Opened, and Targets the node
	// ports that they may be forwarded to. Together they identify a port forwarding whose creation got no answer, even
	// if the Service has changed since.
	Forwarded string `json:"forwarded,omitempty"`
	Targets   string `json:"targets,omitempty"`
	// Forwards lists the IDs of the Service's port forwardings without tags, separated by blanks.
	Forwards string `json:"forwards,omitempty"`
}

// PendingAllocation is an acquisition whose outcome is not known.
type PendingAllocation struct {
	JobID     string `json:"job"` // UUID sent as customjobid
	NetworkID string `json:"network"`
	VPCID     string `json:"vpc,omitempty"`
	ProjectID string `json:"project,omitempty"`
	IP        string `json:"ip,omitempty"` // requested address
	// Reserved is true when the account had reserved the address before; it is then never released.
	Reserved bool      `json:"reserved,omitempty"`
	Since    time.Time `json:"since"`
}

// Empty reports whether there are no records.
func (r Records) Empty() bool { return len(r.Addresses) == 0 && len(r.Pending) == 0 }

// Trusted returns the records without public addresses that lack the time of acquisition: the controller always writes
// it and compares it with CloudStack. An admission policy keeps other users from writing records; Trusted ignores
// forged ones in clusters without that policy.
func (r Records) Trusted() Records {
	r.Addresses = slices.DeleteFunc(slices.Clone(r.Addresses),
		func(a AddressRecord) bool { return a.Acquired == "" && !a.Internal })
	return r
}

// Clone returns a deep copy.
func (r Records) Clone() Records {
	return Records{Addresses: slices.Clone(r.Addresses), Pending: slices.Clone(r.Pending)}
}

// Equal reports whether the records are the same.
func (r Records) Equal(o Records) bool {
	return slices.Equal(r.Addresses, o.Addresses) &&
		slices.EqualFunc(r.Pending, o.Pending, func(a, b PendingAllocation) bool {
			same := a.Since.Equal(b.Since)
			a.Since = b.Since // the same instant may be written in another zone
			return same && a == b
		})
}

// Project returns the project of the recorded addresses and allocations; empty means the default one.
func (r Records) Project() string {
	for _, a := range r.Addresses {
		if a.ProjectID != "" {
			return a.ProjectID
		}
	}
	for _, p := range r.Pending {
		if p.ProjectID != "" {
			return p.ProjectID
		}
	}
	return ""
}

// Values returns the annotations with the records; an empty value means that the annotation must be removed.
func (r Records) Values() map[string]string {
	return map[string]string{Addresses: listJSON(r.Addresses), Allocation: listJSON(r.Pending)}
}

// maxRecords is the largest number of records of a Service. Normally there is one address, and two while it changes.
const maxRecords = 100

var errManyRecords = fmt.Errorf("it has more than %d records", maxRecords)

// ParseRecords reads the records from a Service's annotations.
func ParseRecords(annotations map[string]string) (r Records, _ error) {
	for name, into := range map[string]any{Addresses: &r.Addresses, Allocation: &r.Pending} {
		value := annotations[name]
		if value == "" {
			continue
		}
		err := errManyRecords
		if strings.Count(value, "{") <= maxRecords {
			err = json.Unmarshal([]byte(value), into)
		}
		if err != nil {
			return Records{},
				fmt.Errorf("annotation %s is not what the controller wrote: %w; remove it to let the "+
					"controller look again", name, err)
		}
	}
	return r, nil
}

// listJSON returns the JSON of a list, or nothing for an empty list.
func listJSON[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	b, err := json.Marshal(list)
	if err != nil { // impossible for strings, booleans and times
		panic(err)
	}
	return string(b)
}
