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
	ForwardPorts  PortSet `json:"forwarded,omitempty"`
}

func (AllocateAddress) kind() string { return "allocate-address" }

func (a AllocateAddress) label() string {
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

func (a AllocateAddress) effect(before Actual, o Outcome) Actual {
	after := before.Clone()
	after.Addresses = append(after.Addresses, Address{
		ID: o.ID, IP: o.IP, NetworkID: a.NetworkID, VPCID: a.VPCID, Internal: a.Internal,
		Owner: Unknown, Allocated: true, Recorded: true, Known: true, FirewallPorts: a.FirewallPorts,
		ForwardPorts: a.ForwardPorts, ForwardsKnown: len(a.ForwardPorts) > 0,
	})
	return after
}

// RememberAddress records the address on the Service.
type RememberAddress struct {
	change
	OnAddress
	NetworkID     string  `json:"networkID,omitempty"`
	Allocated     bool    `json:"allocated,omitempty"`
	FirewallPorts PortSet `json:"opened,omitempty"`
	ForwardPorts  PortSet `json:"forwarded,omitempty"`
}

func (RememberAddress) kind() string    { return "remember-address" }
func (a RememberAddress) label() string { return "record address " + a.IP + " on the Service" }

func (a RememberAddress) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) { x.Recorded, x.FirewallPorts, x.ForwardPorts = true, a.FirewallPorts, a.ForwardPorts })
}

// TagAddress tags the address as the Service's.
type TagAddress struct {
	change
	OnAddress
}

func (TagAddress) kind() string    { return "tag-address" }
func (a TagAddress) label() string { return "tag address " + a.IP }

func (a TagAddress) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) { x.Tagged, x.Owner, x.OwnTags, x.FormerCluster = true, Owned, TagKeys(), false })
}

// ReleaseAddress releases the address with everything on it.
type ReleaseAddress struct {
	removal
	OnAddress
}

func (ReleaseAddress) kind() string                             { return "release-address" }
func (a ReleaseAddress) label() string                          { return "release address " + a.IP }
func (a ReleaseAddress) effect(before Actual, _ Outcome) Actual { return before.without(a.AddressID) }

// ForgetAddress removes our tags and record of an address that stays in CloudStack.
type ForgetAddress struct {
	removal
	OnAddress
	Internal  bool   `json:"internal,omitempty"`
	Allocated bool   `json:"allocated,omitempty"`
	HandOver  bool   `json:"handOver,omitempty"` // other Services go on using it
	Keep      bool   `json:"keep,omitempty"`     // the address is marked as kept by the Service
	Note      string `json:"note,omitempty"`     // why it stays
}

func (ForgetAddress) kind() string                             { return "forget-address" }
func (a ForgetAddress) label() string                          { return "leave address " + a.IP + because(a.Note) }
func (a ForgetAddress) effect(before Actual, _ Outcome) Actual { return before.without(a.AddressID) }
