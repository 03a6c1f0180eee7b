// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"fmt"
	"strings"

	"github.com/csccm/csccm/pkg/plural"
)

// setLabel describes the action in a line, for logs and plans.
func (a *Action) setLabel() {
	on := ""
	if a.IP != "" {
		on = " on " + a.IP
	}
	switch a.Kind {
	case AllocateAddress:
		what := "an address"
		if a.IP != "" {
			what = "address " + a.IP
		}
		switch {
		case a.Internal:
			a.Label = "take " + what + " of tier " + a.NetworkID
		case a.VPCID != "":
			a.Label = "acquire " + what + " in VPC " + a.VPCID
		default:
			a.Label = "acquire " + what + " in network " + a.NetworkID
		}
	case RememberAddress:
		a.Label = "record address " + a.IP + " on the Service"
	case TagAddress:
		a.Label = "tag address " + a.IP
	case CreateRule:
		a.Label = fmt.Sprintf("create rule %s%s (%d to node port %d, %s, %s)", a.Rule.Name, on, a.Rule.PublicPort, a.Rule.PrivatePort, a.Rule.Protocol, a.Rule.Algorithm)
	case UpdateRule:
		a.Label = fmt.Sprintf("update rule of port %d%s (%s, %s)", a.Port, on, a.Rule.Protocol, a.Rule.Algorithm)
	case DeleteRule:
		a.Label = fmt.Sprintf("delete rule of port %d%s", a.Port, on)
	case AddMembers:
		a.Label = fmt.Sprintf("add %s to the rule of port %d%s", counted(len(a.Members), "member"), a.Port, on)
	case RemoveMembers:
		a.Label = fmt.Sprintf("remove %s from the rule of port %d%s", counted(len(a.Members), "member"), a.Port, on)
	case OpenFirewall:
		a.Label = fmt.Sprintf("open %s%s to %s", portsText(*a.Firewall), on, strings.Join(a.Firewall.CIDRs, ","))
	case CloseFirewall:
		a.Label = fmt.Sprintf("close %s%s for %s", portsText(*a.Firewall), on, strings.Join(a.Firewall.CIDRs, ","))
	case OpenACL:
		a.Label = fmt.Sprintf("open %s in ACL %s to %s", portsText(*a.Firewall), a.ACLID, strings.Join(a.Firewall.CIDRs, ","))
	case CloseACL:
		a.Label = fmt.Sprintf("close %s in ACL %s for %s", portsText(*a.Firewall), a.ACLID, strings.Join(a.Firewall.CIDRs, ","))
	case TagRules:
		a.Label = fmt.Sprintf("tag %s%s", counted(len(a.Ports), "rule"), on)
	case SetStickiness:
		a.Label = fmt.Sprintf("set stickiness %s of port %d%s", a.Rule.Stickiness.Method, a.Port, on)
	case DropStickiness:
		a.Label = fmt.Sprintf("remove stickiness of port %d%s", a.Port, on)
	case BindCertificate:
		a.Label = fmt.Sprintf("bind certificate %s to port %d%s", a.Rule.Certificate, a.Port, on)
	case ReleaseAddress:
		a.Label = "release address " + a.IP
	case ForgetAddress:
		a.Label = "leave address " + a.IP
	}
	if a.Note != "" {
		a.Label += ": " + a.Note
	}
}

func counted(n int, noun string) string { return plural.Count(n, noun) }

// ActionsText says how many actions there are, and which the first is.
func ActionsText(n int, first string) string {
	if n == 1 {
		return "1 action: " + first
	}
	return fmt.Sprintf("%d actions, the first: %s", n, first)
}

func portsText(f FirewallRange) string {
	text := fmt.Sprintf("port %d", f.StartPort)
	if f.StartPort != f.EndPort {
		text = fmt.Sprintf("ports %d-%d", f.StartPort, f.EndPort)
	}
	if f.Protocol == ProtocolUDP {
		text += "/udp"
	}
	return text
}
