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

// Records is what the controller remembers on a Service about its addresses.
// It outlives the process; the rest of a load balancer is found by it.
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
	// VPCID is the VPC of an address of a VPC; NetworkID then is the tier.
	VPCID string `json:"vpc,omitempty"`
	// ProjectID is the project that holds it, where the Service names one of its own.
	ProjectID string `json:"project,omitempty"`
	// Internal marks an address of a VPC tier; ID is then made of the tier's id.
	Internal bool `json:"internal,omitempty"`
	// Sticky is true when rules on it may have stickiness policies, which no list of rules shows.
	Sticky bool `json:"sticky,omitempty"`
	// Acquired is when CloudStack says that the account acquired the address: an address that changed hands since is
	// another one, although its id is the same.
	Acquired string `json:"acquired,omitempty"`
	// GuestOf is the namespace to which the address belongs, if that is another one than the Service's: one of its
	// Services had the address first. Where the role may not tag, it is the only proof once that Service is gone.
	GuestOf string `json:"guestOf,omitempty"`
	// Opened are the ports that the Service may have on the address, such as "tcp:80,443 udp:53": a guest keeps them,
	// and a firewall rule whose creation got no answer is told by them from somebody else's.
	Opened string `json:"opened,omitempty"`
	// Forwarded are the ports that may be forwarded for the Service, as in Opened, and Targets the node ports that they
	// may be forwarded to: both together prove a port forwarding whose creation got no answer, whatever the Service
	// asks for by now.
	Forwarded string `json:"forwarded,omitempty"`
	Targets   string `json:"targets,omitempty"`
	// Forwards are the ids of the Service's port forwardings that carry no tags, with blanks between them.
	Forwards string `json:"forwards,omitempty"`
}

// PendingAllocation is an acquisition whose outcome is not known.
type PendingAllocation struct {
	JobID     string `json:"job"` // UUID sent as customjobid
	NetworkID string `json:"network"`
	VPCID     string `json:"vpc,omitempty"`
	ProjectID string `json:"project,omitempty"`
	IP        string `json:"ip,omitempty"` // requested address
	// Reserved is true when the account had reserved the address before: it stays with the account.
	Reserved bool      `json:"reserved,omitempty"`
	Since    time.Time `json:"since"`
}

// Empty reports whether there is nothing to remember.
func (r Records) Empty() bool { return len(r.Addresses) == 0 && len(r.Pending) == 0 }

// Trusted returns the records without those of public addresses that do not say when the account acquired the address:
// the controller always writes that, and an observation compares it. An admission policy keeps others from writing
// records; this keeps out what was written where there is none.
func (r Records) Trusted() Records {
	r.Addresses = slices.DeleteFunc(slices.Clone(r.Addresses),
		func(a AddressRecord) bool { return a.Acquired == "" && !a.Internal })
	return r
}

// Clone returns a deep copy.
func (r Records) Clone() Records {
	return Records{Addresses: slices.Clone(r.Addresses), Pending: slices.Clone(r.Pending)}
}

// Equal compares two records.
func (r Records) Equal(o Records) bool {
	return slices.Equal(r.Addresses, o.Addresses) &&
		slices.EqualFunc(r.Pending, o.Pending, func(a, b PendingAllocation) bool {
			same := a.Since.Equal(b.Since)
			a.Since = b.Since // the same instant may be written in another zone
			return same && a == b
		})
}

// Project is the project that holds what the records name; empty for the default one.
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

// Values returns the annotations that hold the records; an empty value means
// that the annotation is to be removed.
func (r Records) Values() map[string]string {
	out := map[string]string{Addresses: "", Allocation: ""}
	if len(r.Addresses) > 0 {
		out[Addresses] = compactJSON(r.Addresses)
	}
	if len(r.Pending) > 0 {
		out[Allocation] = compactJSON(r.Pending)
	}
	return out
}

// maxRecords is how many records a Service may have: it has one address, and two while it moves.
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

func compactJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // strings, booleans and times only
		panic(err)
	}
	return string(b)
}
