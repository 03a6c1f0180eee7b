// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListVirtualMachinesRecorded(t *testing.T) {
	t.Parallel()
	f := goldenAPI(t, "listVirtualMachines.details-nics")
	vms, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{ID: "i", IDs: []string{"a", "b"}, ProjectID: "p", ZoneID: "z", NetworkID: "n", Name: "x", Keyword: "k", ListAll: true})
	require.NoError(t, err)
	require.Equal(t, []VirtualMachine{{
		ID: "ceddea11-85eb-4d20-bf6c-e56aa6fc8027", Name: "node-5", DisplayName: "node-5", State: VMRunning,
		ZoneID: "a8885454-8c33-4770-9640-f2234fce520e", ZoneName: "Sandbox-simulator", Account: "kubeadmin", Hypervisor: "Simulator",
		NICs: []NIC{
			{ID: "8540b1a0-a5f1-47dc-bb4d-c9303d6145de", NetworkID: "736af895-fad5-4e47-8cc7-0dc4913100d1", NetworkName: "k8s-net", Default: true, Type: "Isolated", IPv4: "10.1.1.36", MAC: "02:01:00:cc:00:06"},
			{ID: "973fd2ff-b285-4b67-9f21-81e580e2b8e0", NetworkID: "c2265244-8d64-4f93-9b85-94feea824fef", NetworkName: "k8s-net2", DeviceID: 1, Type: "Isolated", IPv4: "10.1.1.29", MAC: "02:01:00:cd:00:01"},
		},
	}}, vms)
	form := f.recorded()[0].Form
	for name, want := range map[string]string{
		"id": "i", "ids": "a,b", "projectid": "p", "zoneid": "z", "networkid": "n", "name": "x", "keyword": "k",
		"listall": "true", "details": "nics", "page": "1", "pagesize": "500",
	} {
		require.Equal(t, want, form.Get(name), name)
	}

	f = goldenAPI(t, "listVirtualMachines.with-secondary-ip")
	vms, err = f.client(t).ListVirtualMachines(t.Context(), VMQuery{WithOffering: true})
	require.NoError(t, err)
	require.Len(t, vms, 1)
	require.Equal(t, "Small Instance", vms[0].ServiceOfferingName)
	require.NotEmpty(t, vms[0].ServiceOfferingID)
	require.Len(t, vms[0].NICs[0].SecondaryIP, 1)
	require.Equal(t, "nics,servoff", f.recorded()[0].Form.Get("details"))
	require.Empty(t, f.recorded()[0].Form.Get("listall"))
}

// What the SDK's types cannot read.
func TestListVirtualMachinesOddities(t *testing.T) {
	t.Parallel()
	body := `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"v","name":"n","state":"Running","publicip":"203.0.113.9",
	 "tags":[{"key":"a","value":"1"},{"key":"b","value":2}],
	 "nic":[{"id":"n1","deviceid":"0","isdefault":false,"ip6address":"2001:db8::1","extradhcpoption":[{"id":"x","nicid":"n1","extradhcpoptioncode":66,"extradhcpvalue":"y"}]},
	        {"id":"n3","deviceid":"2","isdefault":false},{"id":"n2","deviceid":1,"isdefault":true,"ipaddress":"10.0.0.2","publicip":"203.0.113.9","secondaryip":[{"id":"s","ipaddress":"10.0.0.3"},{"ipaddress":"2001:db8::3"}]}],
	 "vnfnics":[{"deviceid":0}]}]}}`
	f := newFakeAPI(t, func(int, url.Values) reply { return jsonReply(200, body) })
	vms, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, vms[0].Tags)
	nics := vms[0].NICs
	require.Equal(t, []string{"n2", "n1", "n3"}, []string{nics[0].ID, nics[1].ID, nics[2].ID}, "the default NIC first, then by device")
	require.Equal(t, []string{"10.0.0.3", "2001:db8::3"}, nics[0].SecondaryIP)
	require.Equal(t, "2001:db8::1", nics[1].IPv6)
}

func TestListNetworksRecorded(t *testing.T) {
	t.Parallel()
	c := goldenAPI(t, "listNetworks.by-id-k8s-net").client(t)
	nets, err := c.ListNetworks(t.Context(), NetworkQuery{ID: "x", ListAll: true})
	require.NoError(t, err)
	require.Len(t, nets, 1)
	n := nets[0]
	require.Equal(t, "k8s-net", n.Name)
	require.Equal(t, "Isolated", n.Type)
	require.Equal(t, "Implemented", n.State)
	require.Equal(t, "10.1.1.0/24", n.CIDR)
	require.Equal(t, "kubeadmin", n.Account)
	require.True(t, n.ConserveMode)
	require.True(t, n.HasService("Lb"))
	require.True(t, n.HasService("Firewall"))
	require.False(t, n.HasService("NetworkACL"))
	require.Equal(t, []string{"VirtualRouter"}, n.ServiceProviders["Lb"])
	require.Equal(t, "tcp, udp, tcp-proxy, ssl", n.Services["Lb"]["SupportedProtocols"])

	nets, err = goldenAPI(t, "listNetworks.by-id-k8s-tier").client(t).ListNetworks(t.Context(), NetworkQuery{})
	require.NoError(t, err)
	require.NotEmpty(t, nets[0].VPCID)
	require.NotEmpty(t, nets[0].ACLID)
	require.NotEmpty(t, nets[0].ACLName)
	require.True(t, nets[0].HasService("NetworkACL"))
}

func TestListPublicIPsRecorded(t *testing.T) {
	t.Parallel()
	f := goldenAPI(t, "listPublicIpAddresses.by-id")
	no := false
	ips, err := f.client(t).ListPublicIPs(t.Context(), PublicIPQuery{ID: "i", Address: "a", AssociatedNetworkID: "n", VPCID: "v", ProjectID: "p", State: "Allocating", AllocatedOnly: &no})
	require.NoError(t, err)
	require.Len(t, ips, 1)
	require.Equal(t, "Allocated", ips[0].State)
	require.NotEmpty(t, ips[0].Address)
	require.NotEmpty(t, ips[0].AssociatedNetworkID)
	require.Equal(t, "kubeadmin", ips[0].Account)
	form := f.recorded()[0].Form
	for name, want := range map[string]string{"id": "i", "ipaddress": "a", "associatednetworkid": "n", "vpcid": "v", "projectid": "p", "state": "Allocating", "allocatedonly": "false"} {
		require.Equal(t, want, form.Get(name), name)
	}

	g := golden(t, "listPublicIpAddresses.by-tag")
	f = newFakeAPI(t, func(int, url.Values) reply { return g.reply() })
	ips, err = f.client(t).ListPublicIPs(t.Context(), PublicIPQuery{})
	require.NoError(t, err)
	require.NotEmpty(t, ips)
	require.NotEmpty(t, ips[0].Tags)
	ips, err = f.client(t).ListPublicIPs(t.Context(), PublicIPQuery{Tags: map[string]string{"no-such": "tag"}})
	require.NoError(t, err)
	require.Empty(t, ips, "releases that or-combine tags must not widen the result")
	require.Empty(t, f.recorded()[0].Form.Get("allocatedonly"))
}

func TestListLoadBalancerRulesRecorded(t *testing.T) {
	t.Parallel()
	rules, err := goldenAPI(t, "listLoadBalancerRules.by-id-tagged").client(t).ListLoadBalancerRules(t.Context(), LoadBalancerRuleQuery{
		Tags: map[string]string{"svc": "default/my-svc", "kubernetes.io/cluster": "c1"},
	})
	require.NoError(t, err)
	require.Equal(t, []LoadBalancerRule{{
		ID: "57f15283-069f-41ce-ac33-686744277e08", Name: "lb-tcp-renamed",
		PublicIPID: "c65fa687-7020-40fe-9590-3fe444399162", PublicIP: "192.168.2.9", PublicPort: 80, PrivatePort: 30080,
		Protocol: "tcp", Algorithm: "bogus", CIDRs: []string{}, NetworkID: "736af895-fad5-4e47-8cc7-0dc4913100d1", State: "Add",
		Tags: map[string]string{"kubernetes.io/cluster": "c1", "svc": "default/my-svc"},
	}}, rules)

	rules, err = goldenAPI(t, "listLoadBalancerRules.other-empty").client(t).ListLoadBalancerRules(t.Context(), LoadBalancerRuleQuery{})
	require.NoError(t, err)
	require.Empty(t, rules)

	rules, err = goldenAPI(t, "listLoadBalancerRules.all").client(t).ListLoadBalancerRules(t.Context(), LoadBalancerRuleQuery{})
	require.NoError(t, err)
	var without, proxied int
	for _, r := range rules {
		require.NotZero(t, r.PublicPort+r.PrivatePort, r.Name)
		if r.Protocol == "" {
			without++
		}
		if r.Protocol == "tcp-proxy" {
			proxied++
		}
	}
	require.Positive(t, without, "rules made without a protocol have none")
	require.Positive(t, proxied)
}

func TestSplitCIDRs(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	require.Nil(t, splitCIDRs(nil))
	require.Equal(t, []string{}, splitCIDRs(text("")))
	require.Equal(t, []string{"10.0.0.0/8", "192.168.0.0/16"}, splitCIDRs(text("10.0.0.0/8 192.168.0.0/16")))
	require.Equal(t, []string{"10.0.0.0/8", "192.168.0.0/16"}, splitCIDRs(text("10.0.0.0/8,192.168.0.0/16")))
}

func TestListLoadBalancerMembersRecorded(t *testing.T) {
	t.Parallel()
	f := goldenAPI(t, "listLoadBalancerRuleInstances.several-lbvmips")
	members, err := f.client(t).ListLoadBalancerMembers(t.Context(), "r")
	require.NoError(t, err)
	require.Len(t, members, 3)
	require.Equal(t, LoadBalancerMember{VMID: "f1db34f8-ed2e-4d48-8931-dc1a06f72c9c", Name: "node-1", State: VMRunning, Addresses: []string{"10.1.1.178"}}, members[0])
	require.Equal(t, "true", f.recorded()[0].Form.Get("lbvmips"))
	require.Empty(t, f.recorded()[0].Form.Get("page"))

	members, err = goldenAPI(t, "listLoadBalancerRuleInstances.primary-and-secondary-lbvmips").client(t).ListLoadBalancerMembers(t.Context(), "r")
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(members, func(m LoadBalancerMember) bool { return len(m.Addresses) == 2 }), "%v", members)
	members, err = goldenAPI(t, "listLoadBalancerRuleInstances.applied-false").client(t).ListLoadBalancerMembers(t.Context(), "r")
	require.NoError(t, err)
	require.Empty(t, members)
}

func TestListFirewallRulesRecorded(t *testing.T) {
	t.Parallel()
	f := goldenAPI(t, "listFirewallRules.by-ipaddressid")
	rules, err := f.client(t).ListFirewallRules(t.Context(), FirewallRuleQuery{PublicIPID: "ip"})
	require.NoError(t, err)
	require.Len(t, rules, 9)
	require.Equal(t, "ip", f.recorded()[0].Form.Get("ipaddressid"))
	byID := map[string]FirewallRule{}
	for _, r := range rules {
		byID[r.ID] = r
	}
	two := byID["c675369c-70c3-4ee8-8bcd-bf0b90a0d442"]
	require.Equal(t, []string{"10.0.0.0/8", "192.168.0.0/16"}, two.CIDRs)
	require.Equal(t, 443, two.StartPort)
	all := byID["badd9b26-8ab7-4558-832d-c31a4c30ed69"]
	require.Zero(t, all.StartPort+all.EndPort)
	ranged := byID["557cf2c7-340d-4b16-a9c7-515857e3509e"]
	require.Equal(t, [2]int{70, 90}, [2]int{ranged.StartPort, ranged.EndPort})
}

func TestZonesProjectsDiscoveryRecorded(t *testing.T) {
	t.Parallel()
	zones, err := goldenAPI(t, "listZones.all").client(t).ListZones(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Zone{{ID: "a8885454-8c33-4770-9640-f2234fce520e", Name: "Sandbox-simulator", NetworkType: "Advanced", AllocationState: "Enabled"}}, zones)

	projects, err := goldenAPI(t, "listProjects.user").client(t).ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Project{{ID: "88cb8c8f-bbea-4de1-b9f3-43f13e68fc29", Name: "k8s-project", State: "Active", DomainID: "0ab018e4-71f8-456c-ae10-4634d0077d6d"}}, projects)

	apis, err := goldenAPI(t, "listApis.one").client(t).ListAPIs(t.Context())
	require.NoError(t, err)
	api := apis["createLoadBalancerRule"]
	require.True(t, api.Async)
	require.True(t, api.Params["cidrlist"])
	require.False(t, api.Params["no-such"])

	caps, err := goldenAPI(t, "smallpage.listCapabilities").client(t).Capabilities(t.Context())
	require.NoError(t, err)
	require.Equal(t, &Capabilities{Version: "4.22.0.0-SNAPSHOT", KubernetesService: true, DynamicRoles: true}, caps)
	f := newFakeAPI(t, func(int, url.Values) reply {
		return jsonReply(200, `{"listcapabilitiesresponse":{"capability":{"apilimitmax":25,"apilimitinterval":1}}}`)
	})
	caps, err = f.client(t).Capabilities(t.Context())
	require.NoError(t, err)
	require.Equal(t, 25, caps.RateLimit)
	require.Equal(t, time.Second, caps.RateInterval)
}

// pagedVMs answers listVirtualMachines for n VMs as CloudStack pages; change may
// alter count and entries of a page.
func pagedVMs(n, maxSize int, change func(calls int, page int, count *int, ids *[]string)) func(int, url.Values) reply {
	return func(calls int, form url.Values) reply {
		page, _ := strconv.Atoi(form.Get("page"))
		size, _ := strconv.Atoi(form.Get("pagesize"))
		if size > maxSize {
			return jsonReply(431, fmt.Sprintf(`{"x":{"errorcode":431,"cserrorcode":4350,"errortext":"Page size can't exceed max allowed page size value: %d"}}`, maxSize))
		}
		count := n
		var ids []string
		for i := (page - 1) * size; i < min(page*size, n); i++ {
			ids = append(ids, "vm-"+strconv.Itoa(i))
		}
		if change != nil {
			change(calls, page, &count, &ids)
		}
		if count == 0 {
			return jsonReply(200, `{"listvirtualmachinesresponse":{}}`)
		}
		if len(ids) == 0 {
			return jsonReply(200, fmt.Sprintf(`{"listvirtualmachinesresponse":{"count":%d}}`, count))
		}
		items := make([]string, len(ids))
		for i, id := range ids {
			items[i] = `{"id":"` + id + `"}`
		}
		return jsonReply(200, fmt.Sprintf(`{"listvirtualmachinesresponse":{"count":%d,"virtualmachine":[%s]}}`, count, strings.Join(items, ",")))
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ n, max, calls int }{
		{0, 500, 1}, {1, 500, 1}, {499, 500, 1}, {500, 500, 1}, {501, 500, 2}, {1000, 500, 2}, {1001, 500, 3}, {2345, 500, 5},
		{10, 3, 5}, // a server with default.page.size=3: one refusal, then four pages
	} {
		t.Run(fmt.Sprintf("%d of at most %d", tc.n, tc.max), func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, pagedVMs(tc.n, tc.max, nil))
			c := f.client(t)
			vms, err := c.ListVirtualMachines(t.Context(), VMQuery{})
			require.NoError(t, err)
			require.Len(t, vms, tc.n)
			for i, vm := range vms {
				require.Equal(t, "vm-"+strconv.Itoa(i), vm.ID)
			}
			require.Len(t, f.recorded(), tc.calls)
			if tc.max < 500 {
				_, err := c.ListVirtualMachines(t.Context(), VMQuery{})
				require.NoError(t, err)
				require.Len(t, f.recorded(), 2*tc.calls-1, "the limit is learnt once")
			}
		})
	}
}

func TestPagingNeverAnswersWithAPart(t *testing.T) {
	t.Parallel()
	t.Run("a page is missing", func(t *testing.T) {
		t.Parallel()
		f := newFakeAPI(t, pagedVMs(501, 500, func(_, page int, _ *int, ids *[]string) {
			if page == 2 {
				*ids = nil
			}
		}))
		_, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.True(t, IsKind(err, KindTransient), "%v", err)
		require.ErrorContains(t, err, "counts 501 entries but sent 500")
	})
	t.Run("the only page is cut", func(t *testing.T) {
		t.Parallel()
		f := newFakeAPI(t, pagedVMs(10, 500, func(_, page int, _ *int, ids *[]string) {
			*ids = (*ids)[:min(3, len(*ids))]
		}))
		_, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.True(t, IsKind(err, KindTransient), "%v", err)
	})
	t.Run("recorded: no paging, cut at 3 of 10", func(t *testing.T) {
		t.Parallel()
		_, err := goldenAPI(t, "smallpage.listVirtualMachines.no-paging").client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.True(t, IsKind(err, KindTransient), "%v", err)
	})
	t.Run("recorded: past the end", func(t *testing.T) {
		t.Parallel()
		_, err := goldenAPI(t, "listVirtualMachines.page99-size2").client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.True(t, IsKind(err, KindTransient), "%v", err)
	})
	t.Run("a VM goes while the list is read", func(t *testing.T) {
		t.Parallel()
		f := newFakeAPI(t, pagedVMs(600, 500, func(calls, page int, count *int, ids *[]string) {
			if calls == 1 {
				*count = 601 // the first page was read before one VM went
			}
		}))
		vms, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.NoError(t, err)
		require.Len(t, vms, 600)
		require.Len(t, f.recorded(), 4, "the list is read again from its begin")
	})
	t.Run("an entry slips to the next page", func(t *testing.T) {
		t.Parallel()
		f := newFakeAPI(t, pagedVMs(600, 500, func(calls, page int, _ *int, ids *[]string) {
			if calls == 2 {
				*ids = append(slices.Clone(*ids)[1:], "vm-1")
			}
		}))
		vms, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.NoError(t, err)
		require.Len(t, vms, 600)
	})
	t.Run("it never comes to rest", func(t *testing.T) {
		t.Parallel()
		f := newFakeAPI(t, pagedVMs(600, 500, func(calls, _ int, count *int, _ *[]string) { *count += calls }))
		_, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.True(t, IsKind(err, KindTransient), "%v", err)
		require.LessOrEqual(t, len(f.recorded()), 2*listAttempts)
	})
	t.Run("an error on a later page", func(t *testing.T) {
		t.Parallel()
		answer := pagedVMs(600, 500, nil)
		f := newFakeAPI(t, func(n int, form url.Values) reply {
			if form.Get("page") == "2" {
				return jsonReply(531, `{"x":{"errorcode":531,"errortext":"no"}}`)
			}
			return answer(n, form)
		})
		_, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.True(t, IsKind(err, KindNotPermitted), "%v", err)
	})
	t.Run("a list without count", func(t *testing.T) {
		t.Parallel()
		f := newFakeAPI(t, func(int, url.Values) reply {
			return jsonReply(200, `{"listzonesresponse":{"zone":[{"id":"a"},{"id":"b"}]}}`)
		})
		zones, err := f.client(t).ListZones(t.Context())
		require.NoError(t, err)
		require.Len(t, zones, 2)
	})
	t.Run("members are cut", func(t *testing.T) {
		t.Parallel()
		f := newFakeAPI(t, func(int, url.Values) reply {
			return jsonReply(200, `{"x":{"count":2,"lbrulevmidip":[{"loadbalancerruleinstance":{"id":"a"}}]}}`)
		})
		_, err := f.client(t).ListLoadBalancerMembers(t.Context(), "r")
		require.True(t, IsKind(err, KindTransient), "%v", err)
	})
}
