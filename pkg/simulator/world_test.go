// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDsAreTheSameInEveryRun(t *testing.T) {
	t.Parallel()
	first, second := start(t, Options{}), start(t, Options{})
	require.Equal(t, first.vmID("demo-cp-1"), second.vmID("demo-cp-1"))
}

// Two networks may have VMs with the same name, as in an account of a real cloud.
func TestSameNameTwice(t *testing.T) {
	t.Parallel()
	w := ExampleWorld()
	w.Networks = append(w.Networks, Network{Name: "other-net", Account: "k8s", CIDR: "10.2.1.0/24"})
	twin := w.VirtualMachines[0]
	twin.NICs = []NIC{{Network: "other-net", IP: "10.2.1.11"}}
	w.VirtualMachines = append(w.VirtualMachines, twin)
	start(t, Options{
		World: w,
	}).play(`k8s-owner listVirtualMachines name=demo-cp-1 => count 2 /virtualmachine.1.name=demo-cp-1`)
}

// TestWorldErrors requires that each error names the object and the correct form.
func TestWorldErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ old, new, want string }{
		"unknown key": {"zones:", "zonez: []\nzones:", `unknown field "zonez"`},
		"no such network": {"nics: [{network: k8s-net, ip: 10.1.1.11}]", "nics: [{network: nope}]",
			`virtual machine "demo-cp-1": network "nope" is not among`},
		"address outside": {"ip: 10.1.1.11", "ip: 10.9.1.11",
			`ip "10.9.1.11" is no address of network "k8s-net" (10.1.1.0/24)`},
		"public ip outside": {"address: 203.0.113.20", "address: 198.51.100.1",
			`public ip "198.51.100.1": the address lies in no publicRanges`},
		"bad range": {"203.0.113.10-203.0.113.199", "203.0.113.199-203.0.113.10",
			`zone "zone-1": public range`},
		"unknown account": {"account: k8s\n    cidr", "account: k9s\n    cidr",
			`network "k8s-net": account "k9s" is not among the world's accounts`},
		"unknown role": {"role: User", "role: Users", `account "k8s": role "Users" is not there; use Root Admin`},
		"unknown member": {"members: [demo-worker-1, demo-worker-2]", "members: [demo-worker-9]",
			`load balancer rule "a0123456789abcdef0123456789abcde-80": virtual machine "demo-worker-9"`},
		"port twice": {"publicPort: 443", "publicPort: 80", `public port 80 is that of another rule`},
		"bad protocol": {"privatePort: 30080", "privatePort: 30080\n        protocol: sctp",
			`protocol "sctp" must be one of tcp, udp`},
		"source nat taken": {"sourceNAT: 203.0.113.10", "sourceNAT: 10.0.0.1",
			`network "k8s-net": sourceNAT 10.0.0.1 is no free address`},
		"half a key pair": {"name: k8s-owner,", "name: k8s-owner, apiKey: abc,",
			`user "k8s-owner": give apiKey and secretKey together`},
		"bad id": {"- name: demo-cp-1", "- name: demo-cp-1\n    id: 7", `id`},
		"bad host name": {"- name: demo-cp-1", "- name: demo_cp_1",
			`the name must be letters, digits and hyphens`},
		"unknown offering": {"offering: Small Instance\n    nics: [{network: k8s-net, ip: 10.1.1.11}]",
			"offering: Huge\n    nics: [{network: k8s-net, ip: 10.1.1.11}]", `service offering "Huge" is not among`},
		"bad limit": {"  - name: k8s\n", "  - name: k8s\n    limits: {ips: 3}\n",
			`limit "ips" is not known; use one of`},
		"firewall protocol": {"{protocol: tcp, startPort: 80, endPort: 80}", "{protocol: gre}",
			`firewall rule 1: protocol "gre" must be tcp, udp or icmp`},
		"network type": {"    cidr: 10.1.1.0/24", "    type: Bridged\n    cidr: 10.1.1.0/24",
			`types are Isolated, Shared and L2`},
		"duplicate vm state": {"publicRanges:\n      - 203.0.113.10-203.0.113.199", "publicRanges: []",
			`publicRanges is empty`},
	} {
		text := strings.Replace(string(ExampleYAML()), tc.old, tc.new, 1)
		require.NotEqual(t, string(ExampleYAML()), text, "%s changes nothing", name)
		_, err := LoadWorld(strings.NewReader(text))
		require.ErrorContains(t, err, tc.want, name)
	}
}

// TestFreshWorld: the world of a fresh installation, whose admin logs in and registers keys.
func TestFreshWorld(t *testing.T) {
	t.Parallel()
	h := start(t, Options{World: FreshWorld()})
	for _, u := range h.sim.Users() {
		require.Empty(t, u.APIKey, u.Name)
	}

	login, _ := h.login("admin", "password", "")
	require.Equal(t, 200, login.status)
	h.play(`
		root listZones => name=Sandbox-simulator allocationstate=Enabled
		root listServiceOfferings => count 2 name="Small Instance" /serviceoffering.1.name="Medium Instance"
		root listNetworkOfferings name=DefaultIsolatedNetworkOfferingWithSourceNatService => count 1
		root listPublicIpAddresses allocatedonly=false listall=true => count 199
		root listVirtualMachines listall=true => count 0
		root listNetworks listall=true => count 0
		root listUsers username=admin > admin
		root registerUserKeys id={admin} => apikey~
		admin listZones
	`)

	require.NotContains(t, string(FreshYAML()), "apiKey")
}
