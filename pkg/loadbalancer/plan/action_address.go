// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// AllocateAddress acquires a public address, or takes one of a tier.
type AllocateAddress struct {
	creation
	IP            string  `json:"ip,omitempty"` // empty for any
	NetworkID     string  `json:"networkID,omitempty"`
	VPCID         string  `json:"vpcID,omitempty"`
	Internal      bool    `json:"internal,omitempty"`
	FirewallPorts PortSet `json:"opened,omitempty"` // for the record
}

// Kind implements Action.
func (AllocateAddress) Kind() string { return "allocate-address" }

// Label implements Action.
func (a AllocateAddress) Label() string {
	what := "an address"
	if a.IP != "" {
		what = "address " + a.IP
	}
	switch {
	case a.Internal:
		return "take " + what + " of tier " + a.NetworkID
	case a.VPCID != "":
		return "acquire " + what + " in VPC " + a.VPCID
	}
	return "acquire " + what + " in network " + a.NetworkID
}

// Effect implements Action.
func (a AllocateAddress) Effect(before Actual, o Outcome) Actual {
	after := before.Clone()
	after.Addresses = append(after.Addresses, Address{
		ID: o.ID, IP: o.IP, NetworkID: a.NetworkID, VPCID: a.VPCID, Internal: a.Internal,
		Owner: Unknown, Allocated: true, Recorded: true, Known: true, FirewallPorts: a.FirewallPorts,
	})
	return after
}

// RememberAddress records the address on the Service.
type RememberAddress struct {
	change
	On
	NetworkID     string  `json:"networkID,omitempty"`
	Allocated     bool    `json:"allocated,omitempty"`
	FirewallPorts PortSet `json:"opened,omitempty"`
}

// Kind implements Action.
func (RememberAddress) Kind() string { return "remember-address" }

// Label implements Action.
func (a RememberAddress) Label() string { return "record address " + a.IP + " on the Service" }

// Effect implements Action.
func (a RememberAddress) Effect(before Actual, _ Outcome) Actual {
	return before.with(a.On, func(x *Address) { x.Recorded, x.FirewallPorts = true, a.FirewallPorts })
}

// TagAddress tags the address as the Service's.
type TagAddress struct {
	change
	On
}

// Kind implements Action.
func (TagAddress) Kind() string { return "tag-address" }

// Label implements Action.
func (a TagAddress) Label() string { return "tag address " + a.IP }

// Effect implements Action.
func (a TagAddress) Effect(before Actual, _ Outcome) Actual {
	return before.with(a.On, func(x *Address) { x.Tagged, x.Owner, x.OwnTags, x.FormerCluster = true, Owned, TagKeys(), false })
}

// ReleaseAddress releases the address with everything on it.
type ReleaseAddress struct {
	removal
	On
}

// Kind implements Action.
func (ReleaseAddress) Kind() string { return "release-address" }

// Label implements Action.
func (a ReleaseAddress) Label() string { return "release address " + a.IP }

// Effect implements Action.
func (a ReleaseAddress) Effect(before Actual, _ Outcome) Actual { return before.without(a.On) }

// ForgetAddress removes our tags and record of an address that stays in CloudStack.
type ForgetAddress struct {
	removal
	On
	Internal  bool   `json:"internal,omitempty"`
	Allocated bool   `json:"allocated,omitempty"`
	HandOver  bool   `json:"handOver,omitempty"` // other Services go on using it
	Keep      bool   `json:"keep,omitempty"`     // the address is marked as kept by the Service
	Note      string `json:"note,omitempty"`     // why it stays
}

// Kind implements Action.
func (ForgetAddress) Kind() string { return "forget-address" }

// Label implements Action.
func (a ForgetAddress) Label() string { return "leave address " + a.IP + because(a.Note) }

// Effect implements Action.
func (a ForgetAddress) Effect(before Actual, _ Outcome) Actual { return before.without(a.On) }

func because(note string) string {
	if note == "" {
		return ""
	}
	return ": " + note
}
