// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Guard is one of the checks that keep a Service from harming others. Each is needed: tests take them out one by one
// and show what then goes wrong.
type Guard string

// Guards.
const (
	// GuardSeal ignores records that carry no valid signature.
	GuardSeal Guard = "seal"
	// GuardTags releases an address only if CloudStack's tags name the Service, or the role may not tag.
	GuardTags Guard = "tags"
	// GuardPredecessor does not take another provider's annotation for proof.
	GuardPredecessor Guard = "predecessor"
	// GuardSharing keeps an address to the namespace that has it, and to those that it admits.
	GuardSharing Guard = "sharing"
	// GuardForwards reads port forwardings before a rule is made, and refuses a port that is forwarded.
	GuardForwards Guard = "forwards"
	// GuardClaim changes a firewall rule that nothing proves ours only after our own rule has the port.
	GuardClaim Guard = "claim"
	// GuardForeignAddress leaves addresses to the rules and port forwardings of others.
	GuardForeignAddress Guard = "foreign-address"
	// GuardSourceNAT leaves source NAT addresses alone.
	GuardSourceNAT Guard = "source-nat"
	// GuardKept leaves a kept address to the namespace that kept it.
	GuardKept Guard = "kept"
	// GuardKeepLimit limits how many addresses a namespace keeps.
	GuardKeepLimit Guard = "keep-limit"
	// GuardLeaseweb does not adopt rules that Leaseweb's provider named for another cluster.
	GuardLeaseweb Guard = "leaseweb"
)

// Guards are all of them.
func Guards() []Guard {
	return []Guard{
		GuardSeal, GuardTags, GuardPredecessor, GuardSharing, GuardForwards, GuardClaim, GuardForeignAddress, GuardSourceNAT, GuardKept, GuardKeepLimit, GuardLeaseweb,
	}
}
