// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// NetworkOf is what the planner needs to know of a network that CloudStack has shown.
func NetworkOf(n *cloudstack.Network) Network {
	capability := n.Services["Lb"]
	schemes := strings.ToLower(capability["LbSchemes"])
	out := Network{
		ID: n.ID, Name: n.Name, VPCID: n.VPCID, Type: n.Type, ACLID: n.ACLID, ACLName: n.ACLName, Conserve: n.ConserveMode,
		LoadBalancer: n.HasService("Lb"), Firewall: n.HasService("Firewall"), DNS: n.HasService("Dns"),
		Public: schemes == "" || strings.Contains(schemes, "public"), Internal: strings.Contains(schemes, "internal"),
		TLS: strings.EqualFold(capability["SslTermination"], "true"), Providers: n.ServiceProviders["Lb"],
	}
	for _, p := range strings.Split(capability["SupportedProtocols"], ",") {
		out.Protocols = append(out.Protocols, strings.ToLower(strings.TrimSpace(p)))
	}
	return out
}
