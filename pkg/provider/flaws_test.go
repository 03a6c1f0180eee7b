// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

// The 25 flaws of upstream's provider v1.2.0 that were found by reading and measuring it, each with the test that
// keeps it out of here. Tests are named TestFlawNN.
//
//	    upstream                                                       here                                               file
//	 1  destroyed VM: its Node stays for ever                          the Node goes, on proof                            flaws_nodes
//	 2  stopped VM: no shutdown taint, an error every 5 s              tainted                                            flaws_nodes
//	 3  rule made, members not: "up to date", nobody serves            the next sync adds the members                     flaws_rules
//	 4  several source ranges never converge on 4.22                   read back as written, whatever the separator       flaws_rules
//	 5  rules without source ranges are deleted and made anew          kept, nothing is changed                           flaws_rules
//	 6  PROXY protocol on a live Service: 537 for ever                 switched in place                                  flaws_rules
//	 7  PROXY protocol in a VPC: ACL item of protocol tcp-proxy        ACL items are tcp                                  flaws_vpc
//	 8  one ACL item for all Services, maybe the operator's own        items of each Service, told apart                  flaws_vpc
//	 9  shared address released with the first Service                 with the last                                      flaws_addresses
//	10  a failed release leaks the address                             exists until it is gone                            flaws_addresses
//	11  a crash between address and first rule leaks the address       found again, used, released                        flaws_addresses
//	12  more than 500 VMs: no node is found                            all pages are read                                 flaws_nodes
//	13  a VM without NIC ends the process                              that node does not serve                           flaws_backends
//	14  the first NIC counts, a second network fails all Services      the network that all share                         flaws_backends
//	15  Node with an FQDN: balanced, but never initialised             found by its first label, by all                   flaws_nodes
//	16  no eligible node: error, the old members stay                  no members, and an Event                           flaws_backends
//	17  members removed by hand stay away                              come back                                          flaws_backends
//	18  rule without protocol: never deleted                           deleted with the Service                           flaws_rules
//	19  project and a user's key: the Service is never deleted         deleted                                            flaws_addresses
//	20  the network of an unknown address: all networks are listed     the error is the read's own                        flaws_addresses
//	21  a new loadBalancerIP is passed over                            the Service moves                                  flaws_addresses
//	22  a firewall rule that was not deleted stays open                tried again before the Service is gone             flaws_addresses
//	23  zone: racy, and VMs of other zones are taken                   VMs of the zone alone; safe at once                flaws_nodes
//	24  a version of less than three parts ends the process            no version is read                                 flaws_nodes
//	25  GetLoadBalancer forgets the hostname                           shows it                                           flaws_rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// takenOver is a bed whose Service web has an address already, with rules that another provider made.
func takenOver(t *testing.T, ports []int, rules string) *bed {
	t.Helper()
	b := newBed(t, withWorld(func(w string) string {
		return w + `
  - address: 203.0.113.40
    network: k8s-net
    loadBalancerRules:` + strings.ReplaceAll(rules, "LB", webLB) + `
    firewallRules:
      - {protocol: tcp, startPort: 80, endPort: 80}
`
	}))
	b.service(ports, func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.40"}}
	})
	return b
}

// rulesAt are the rules at an address.
func (b *bed) rulesAt(ip string) []cloudstack.LoadBalancerRule {
	b.t.Helper()
	ips, err := b.inspect.ListPublicIPs(b.t.Context(), cloudstack.PublicIPQuery{Address: ip, ProjectID: b.project})
	require.NoError(b.t, err)
	require.Len(b.t, ips, 1)
	rules, err := b.inspect.ListLoadBalancerRules(b.t.Context(), cloudstack.LoadBalancerRuleQuery{PublicIPID: ips[0].ID, ProjectID: b.project})
	require.NoError(b.t, err)
	return rules
}
