// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// limitedTo gives a world more public addresses than a test needs, and limits how many the account may have; -1 means
// no limit. The account already uses five.
func limitedTo(world string, addresses int) string {
	return strings.NewReplacer(
		"[203.0.113.10-203.0.113.99]", "[203.0.113.10-203.0.113.99, 198.18.0.1-198.18.3.250]",
		"  - name: k8s\n    role: User\n", fmt.Sprintf("  - name: k8s\n    role: User\n    limits: {publicIPs: %d}\n",
			addresses),
	).Replace(world)
}

// withVMs adds n VMs named n0, n1 ... to the network, and a range of many addresses.
func withVMs(world string, n int) string {
	var vms strings.Builder
	for i := range n {
		fmt.Fprintf(&vms, "  - {name: n%d, account: k8s, nics: [{network: k8s-net, ip: 10.1.%d.%d}]}\n", i, 4+i/200,
			10+i%200)
	}
	world = strings.Replace(world, "virtualMachines:\n", "virtualMachines:\n"+vms.String(), 1)
	return limitedTo(strings.Replace(world, "cidr: 10.1.1.0/24, sourceNAT: 203.0.113.10",
		"cidr: 10.1.0.0/16, sourceNAT: 203.0.113.10", 1), -1)
}

// projectID is the project of projectIn.
const projectID = "6c1f6d3e-0000-4000-8000-000000000001"

// projectIn adds a project dev with the VMs p1 and p2 to a world.
func projectIn(world string) string {
	return strings.NewReplacer(
		"networks:\n", "networks:\n  - {name: project-net, project: dev, cidr: 10.1.9.0/24, sourceNAT: 203.0.113.90}\n",
		"virtualMachines:\n", `virtualMachines:
  - {name: p1, project: dev, nics: [{network: project-net, ip: 10.1.9.21}]}
  - {name: p2, project: dev, nics: [{network: project-net, ip: 10.1.9.22}]}
`,
	).Replace(world) + "projects:\n  - {id: " + projectID + ", name: dev, owner: k8s}\n"
}

// denying gives the controller a role without some commands.
func denying(world string, commands ...string) string {
	return strings.NewReplacer(
		"accounts:\n", "roles:\n  - name: few\n    type: User\n    rules: [{deny: "+
			strings.Join(commands, "}, {deny: ")+"}, {allow: \"*\"}]\naccounts:\n",
		"  - name: k8s\n    role: User", "  - name: k8s\n    role: few",
	).Replace(world)
}

// The tiers of vpcSetup, their VMs, and the beginning of their VPC.
const (
	vpcTiers = `  - {name: tier, vpc: vpc-1, account: k8s, cidr: 10.2.1.0/24, acl: acl-1}
  - {name: inner, vpc: vpc-1, account: k8s, cidr: 10.2.2.0/24, acl: acl-1, offering: DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB}
`
	vpcMachines = `  - {name: v1, account: k8s, nics: [{network: tier, ip: 10.2.1.21}]}
  - {name: v2, account: k8s, nics: [{network: tier, ip: 10.2.1.22}]}
  - {name: i1, account: k8s, nics: [{network: inner, ip: 10.2.2.21}]}
  - {name: i2, account: k8s, nics: [{network: inner, ip: 10.2.2.22}]}
`
	vpcHead = `vpcs:
  - name: vpc-1
    cidr: 10.2.0.0/16
    account: k8s
    aclLists:
      - name: acl-1
        items:
          - {number: 1, protocol: tcp, startPort: 22, endPort: 22, cidrs: [198.51.100.0/24], reason: by hand}
`
)

// vpcWorld is a VPC with the cluster's nodes: the VMs v1 and v2 in a tier, and i1 and i2 in a tier with internal load
// balancing. Both tiers have the ACL list acl-1; wall is the number of its last item, which denies everything.
func vpcWorld(wall int) string {
	head, _, _ := strings.Cut(lbWorld, "networks:\n")
	return head + "networks:\n" + vpcTiers + "virtualMachines:\n" + vpcMachines + vpcHead +
		fmt.Sprintf("          - {number: %d, protocol: all, action: Deny, reason: wall}\n", wall)
}

// joins adds a Node as its kubelet does, with an address if one is given. If Kubernetes' controllers run, the Node has
// the taint of an external cloud provider, unless Nodes are to be adopted.
func (p *player) joins(node string, address ...string) {
	p.t.Helper()
	n := nodesNamed(node)[0]
	for _, ip := range address {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	if p.setup.controllers && !slices.Contains(p.setup.flags, "--adopt-nodes") {
		changeNode("taint", cloudproviderapi.TaintExternalCloudProvider)(n)
	}
	_, err := p.kube.CoreV1().Nodes().Create(p.t.Context(), n, metav1.CreateOptions{})
	require.NoError(p.t, err)
}

// uploadCertificate uploads a new certificate for the account, and returns its id.
func (p *player) uploadCertificate() string {
	p.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(p.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(p.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(p.t, err)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	accounts, _ := p.Admin("listAccounts", "name", "k8s", "listall", "true")["account"].([]any)
	require.NotEmpty(p.t, accounts)
	account, _ := accounts[0].(map[string]any)
	domain, _ := account["domainid"].(string)
	answer, _ := p.Admin("uploadSslCert", "name", "web", "account", "k8s", "domainid", domain,
		"certificate", text("CERTIFICATE", der), "privatekey", text("PRIVATE KEY", private))["sslcert"].(map[string]any)
	id, _ := answer["id"].(string)
	return id
}

// leaves deletes a Node.
func (p *player) leaves(node string) {
	p.t.Helper()
	require.NoError(p.t, p.kube.CoreV1().Nodes().Delete(p.t.Context(), node, metav1.DeleteOptions{}))
}

// deletes deletes a Service and does not wait.
func (p *player) deletes(key string) {
	p.t.Helper()
	p.edit(key, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
}

// vanishes deletes a Service whose finalizers were removed by hand.
func (p *player) vanishes(key string) {
	p.t.Helper()
	p.edit(key, func(s *corev1.Service) { s.Finalizers = nil })
	p.forget(key)
}

// says returns what users see about a Service: its condition and all Events.
func (p *player) says(key string) string {
	synctest.Wait()
	text := ""
	for _, c := range p.get(key).Status.Conditions {
		text += c.Type + " " + string(c.Status) + " " + c.Reason + ": " + c.Message + "\n"
	}
	return text + strings.Join(p.said(), "\n")
}

// said returns the Events since the last count. It does not reset them.
func (p *player) said() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// metric returns the value of a gauge or counter; 0 when there is none.
func (p *player) metric(name string) float64 {
	p.t.Helper()
	synctest.Wait()
	families, err := p.metrics.Gather()
	require.NoError(p.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// wrote returns the controller's writing calls since the ledger was reset.
func (p *player) wrote() []string {
	synctest.Wait()
	return slices.DeleteFunc(p.Calls("ccm"), isRead)
}

// holds reports whether the account has an address.
func (p *player) holds(ip string) bool {
	p.t.Helper()
	return len(grep(p.addresses(), " "+ip+" ")) > 0
}

// deleteRules deletes everything on an address, as an operator does by hand.
func (p *player) deleteRules(ip string) {
	p.t.Helper()
	a := p.on(ip)
	for i := range a.rules {
		p.Admin("deleteLoadBalancerRule", "id", a.rules[i].ID)
	}
	for i := range a.forwards {
		p.Admin("deletePortForwardingRule", "id", a.forwards[i].ID)
	}
	for i := range a.firewall {
		p.Admin("deleteFirewallRule", "id", a.firewall[i].ID)
	}
}

// tiersIn adds a VPC with three tiers: one with the operator's ACL list, one with that list and internal load
// balancing, and one with the list default_deny.
func tiersIn(world string) string {
	return strings.NewReplacer(
		"networks:\n", "networks:\n"+vpcTiers+
			"  - {name: denied, vpc: vpc-1, account: k8s, cidr: 10.2.3.0/24, acl: default_deny}\n",
		"virtualMachines:\n", "virtualMachines:\n"+vpcMachines+
			"  - {name: d1, account: k8s, nics: [{network: denied, ip: 10.2.3.21}]}\n",
	).Replace(world) + "\n  - {address: 203.0.113.50, vpc: vpc-1}\n" + vpcHead + `
          - {number: 5, protocol: tcp, startPort: 80, endPort: 80, cidrs: [192.0.2.0/24], action: Deny, reason: "Service default/web (csccm other ` + webUID + `)"}
          - {number: 10, protocol: all, action: Deny, reason: wall}
`
}
