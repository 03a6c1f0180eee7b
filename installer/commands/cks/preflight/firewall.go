// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// The ports that CKS opens on the address of a cluster.
const (
	apiPort   = 6443
	sshPort   = 2222 // of the first node; each further node has the next
	etcdStart = 50000
)

// Firewall returns findings about firewall rules on the cluster's address that make CloudStack fail to scale the cluster.
func Firewall(f *Facts) []Finding {
	c := newCheck(f)
	c.firewall()
	return c.findings
}

// firewall looks for rules that CKS stumbles over when it replaces its own: it reads the ports of all rules of the address, and
// some have none.
func (c *check) firewall() {
	k := c.Cluster
	if k.IPAddressID == "" || !c.read("firewall-without-ports", SubjectFirewall) {
		return
	}
	ssh := false
	for _, r := range c.Firewall {
		if r.PublicIPID != k.IPAddressID {
			continue
		}
		ssh = ssh || r.StartPort == sshPort
		if r.StartPort == 0 {
			c.portless(r)
		}
	}
	if !ssh {
		c.warn("firewall-ssh-missing", "address "+k.IPAddress, fmt.Sprintf("create a firewall rule for TCP ports %d to %d on the address", sshPort, sshPort+len(k.Nodes)-1),
			"CloudStack's own firewall rule for SSH to the nodes, from port %d, is gone; CloudStack needs it to scale the cluster", sshPort)
	}
}

func (c *check) portless(r cloudstack.FirewallRule) {
	c.fail("firewall-without-ports", fmt.Sprintf("firewall rule %s on address %s", r.ID, c.Cluster.IPAddress),
		"delete the rule for the time of the change; one for tcp or udp can be replaced by a rule for ports 1 to 65535. "+
			"If your release has the fix (apache/cloudstack#12806): --ignore-preflight firewall-without-ports",
		"it is for protocol %s and has no ports: many releases of CloudStack stop half-way with a NullPointerException", r.Protocol)
}
