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

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestReadsRecorded reads answers of a real management server.
func TestReadsRecorded(t *testing.T) {
	t.Parallel()
	ctx, no := t.Context(), false
	type object = map[string]any
	for _, tc := range []struct {
		golden string
		call   func(c *Client) (any, error)
		want   any
		params map[string]string // that the call must have, besides others; a value of "" must not be there
	}{
		{"listVirtualMachines.details-nics", func(c *Client) (any, error) {
			return c.ListVirtualMachines(ctx, VMQuery{ID: "i", ProjectID: "p", ZoneID: "z", Name: "x", ListAll: true})
		}, []VirtualMachine{{
			ID: "ceddea11-85eb-4d20-bf6c-e56aa6fc8027", Name: "node-5", DisplayName: "node-5", State: VMRunning,
			Account: "kubeadmin", DomainID: "0ab018e4-71f8-456c-ae10-4634d0077d6d",
			ZoneID: "a8885454-8c33-4770-9640-f2234fce520e", ZoneName: "Sandbox-simulator", Hypervisor: "Simulator", AffinityGroups: []AffinityGroup{},
			NICs: []NIC{
				{ID: "8540b1a0-a5f1-47dc-bb4d-c9303d6145de", NetworkID: "736af895-fad5-4e47-8cc7-0dc4913100d1", NetworkName: "k8s-net", Default: true, Type: "Isolated", IPv4: "10.1.1.36", MAC: "02:01:00:cc:00:06"},
				{ID: "973fd2ff-b285-4b67-9f21-81e580e2b8e0", NetworkID: "c2265244-8d64-4f93-9b85-94feea824fef", NetworkName: "k8s-net2", DeviceID: 1, Type: "Isolated", IPv4: "10.1.1.29", MAC: "02:01:00:cd:00:01"},
			},
		}}, map[string]string{"id": "i", "projectid": "p", "zoneid": "z", "name": "x", "listall": "true", "details": "nics", "page": "1", "pagesize": "500"}},
		{"listVirtualMachines.with-secondary-ip", func(c *Client) (any, error) {
			vms, err := c.ListVirtualMachines(ctx, VMQuery{WithOffering: true})
			return object{"offering": vms[0].ServiceOfferingName, "secondary": len(vms[0].NICs[0].SecondaryIP)}, err
		}, object{"offering": "Small Instance", "secondary": 1}, map[string]string{"details": "nics,servoff", "listall": ""}},
		{"listNetworks.by-id-k8s-net", func(c *Client) (any, error) {
			nets, err := c.ListNetworks(ctx, NetworkQuery{ID: "x", ListAll: true})
			n := nets[0]
			return object{
				"name": n.Name, "type": n.Type, "conserve": n.ConserveMode, "firewall": n.HasService("Firewall"), "acl": n.HasService("NetworkACL"),
				"lb": n.ServiceProviders["Lb"], "protocols": n.Services["Lb"]["SupportedProtocols"],
			}, err
		}, object{
			"name": "k8s-net", "type": "Isolated", "conserve": true, "firewall": true, "acl": false,
			"lb": []string{"VirtualRouter"}, "protocols": "tcp, udp, tcp-proxy, ssl",
		}, map[string]string{"id": "x", "listall": "true"}},
		{"listNetworks.by-id-k8s-tier", func(c *Client) (any, error) {
			nets, err := c.ListNetworks(ctx, NetworkQuery{})
			n := nets[0]
			return n.VPCID != "" && n.ACLID != "" && n.ACLName != "" && n.HasService("NetworkACL"), err
		}, true, nil},
		{"listPublicIpAddresses.by-id", func(c *Client) (any, error) {
			ips, err := c.ListPublicIPs(ctx, PublicIPQuery{ID: "i", Address: "a", AssociatedNetworkID: "n", VPCID: "v", ProjectID: "p", State: "Allocating", AllocatedOnly: &no})
			return len(ips) == 1 && ips[0].State == "Allocated" && ips[0].Address != "" && ips[0].AssociatedNetworkID != "", err
		}, true, map[string]string{"id": "i", "ipaddress": "a", "associatednetworkid": "n", "vpcid": "v", "projectid": "p", "state": "Allocating", "allocatedonly": "false"}},
		{"listPublicIpAddresses.by-tag", func(c *Client) (any, error) {
			ips, err := c.ListPublicIPs(ctx, PublicIPQuery{})
			return len(ips[0].Tags) > 0, err
		}, true, map[string]string{"allocatedonly": ""}},
		// Releases that or-combine tags must not widen the result.
		{"listPublicIpAddresses.by-tag", func(c *Client) (any, error) {
			return c.ListPublicIPs(ctx, PublicIPQuery{Tags: map[string]string{"no-such": "tag"}})
		}, []PublicIP{}, nil},
		{"listLoadBalancerRules.by-id-tagged", func(c *Client) (any, error) {
			return c.ListLoadBalancerRules(ctx, LoadBalancerRuleQuery{Tags: map[string]string{"svc": "default/my-svc", "kubernetes.io/cluster": "c1"}})
		}, []LoadBalancerRule{{
			ID: "57f15283-069f-41ce-ac33-686744277e08", Name: "lb-tcp-renamed",
			PublicIPID: "c65fa687-7020-40fe-9590-3fe444399162", PublicIP: "192.168.2.9", PublicPort: 80, PrivatePort: 30080,
			Protocol: "tcp", Algorithm: "bogus", CIDRs: []string{}, NetworkID: "736af895-fad5-4e47-8cc7-0dc4913100d1", State: "Add",
			Tags: map[string]string{"kubernetes.io/cluster": "c1", "svc": "default/my-svc"},
		}}, nil},
		{"listLoadBalancerRules.other-empty", func(c *Client) (any, error) { return c.ListLoadBalancerRules(ctx, LoadBalancerRuleQuery{}) }, []LoadBalancerRule(nil), nil},
		{"listLoadBalancerRules.by-virtualmachineid", func(c *Client) (any, error) {
			_, err := c.ListLoadBalancerRules(ctx, LoadBalancerRuleQuery{VMID: "vm"})
			return nil, err
		}, nil, map[string]string{"virtualmachineid": "vm"}},
		// Rules that were made without a protocol have none.
		{"listLoadBalancerRules.all", func(c *Client) (any, error) {
			rules, err := c.ListLoadBalancerRules(ctx, LoadBalancerRuleQuery{})
			with := func(protocol string) bool {
				return slices.ContainsFunc(rules, func(r LoadBalancerRule) bool { return r.Protocol == protocol && r.PublicPort > 0 })
			}
			return with("") && with("tcp-proxy"), err
		}, true, nil},
		{"listLoadBalancerRuleInstances.several-lbvmips", func(c *Client) (any, error) {
			members, err := c.ListLoadBalancerMembers(ctx, "r")
			return members[0], err
		}, LoadBalancerMember{VMID: "f1db34f8-ed2e-4d48-8931-dc1a06f72c9c", Name: "node-1", State: VMRunning, Addresses: []string{"10.1.1.178"}},
			map[string]string{"id": "r", "lbvmips": "true", "page": ""}},
		{"listLoadBalancerRuleInstances.primary-and-secondary-lbvmips", func(c *Client) (any, error) {
			members, err := c.ListLoadBalancerMembers(ctx, "r")
			return slices.ContainsFunc(members, func(m LoadBalancerMember) bool { return len(m.Addresses) == 2 }), err
		}, true, nil},
		{"listLoadBalancerRuleInstances.applied-false", func(c *Client) (any, error) { return c.ListLoadBalancerMembers(ctx, "r") }, []LoadBalancerMember(nil), nil},
		{"listFirewallRules.by-ipaddressid", func(c *Client) (any, error) {
			rules, err := c.ListFirewallRules(ctx, FirewallRuleQuery{PublicIPID: "ip"})
			out := object{"rules": len(rules)}
			for _, r := range rules {
				switch r.ID[:8] {
				case "c675369c", "badd9b26", "557cf2c7":
					out[r.ID[:8]] = fmt.Sprint(r.StartPort, r.EndPort, r.CIDRs)
				}
			}
			return out, err
		}, object{"rules": 9, "c675369c": "443 443 [10.0.0.0/8 192.168.0.0/16]", "badd9b26": "0 0 [0.0.0.0/0]", "557cf2c7": "70 90 [172.16.0.0/12]"}, map[string]string{"ipaddressid": "ip"}},
		{"listFirewallRules.by-tag", func(c *Client) (any, error) {
			return c.ListFirewallRules(ctx, FirewallRuleQuery{ProjectID: "-1", ListAll: true, Tags: map[string]string{"csccm-uid": "y"}})
		}, []FirewallRule{
			{
				ID: "6c4bb05a-2d52-4091-b875-8525524650cd", PublicIPID: "e0aed02a-2ac1-4448-8786-1dbde1f15a8f", Protocol: "tcp", StartPort: 8082, EndPort: 8082,
				CIDRs: []string{"10.0.0.0/8"}, State: "Active", Tags: map[string]string{"csccm-cluster": "x", "csccm-uid": "y"},
			},
			{
				ID: "4d04423a-f9f7-47b3-984d-809a2dcbd15a", PublicIPID: "e0aed02a-2ac1-4448-8786-1dbde1f15a8f", Protocol: "tcp", StartPort: 8081, EndPort: 8081,
				CIDRs: []string{"10.0.0.0/8"}, State: "Active", Tags: map[string]string{"csccm-cluster": "x", "csccm-uid": "y"},
			},
		}, map[string]string{"projectid": "-1", "listall": "true", "tags[0].key": "csccm-uid", "tags[0].value": "y"}},
		// A server that knows no such filter answers with rules that have other tags.
		{"listFirewallRules.by-tag", func(c *Client) (any, error) {
			return c.ListFirewallRules(ctx, FirewallRuleQuery{Tags: map[string]string{"csccm-uid": "z"}})
		}, []FirewallRule{}, map[string]string{"projectid": "", "listall": ""}},
		{"listFirewallRules.by-tag-of-others", func(c *Client) (any, error) { return c.ListFirewallRules(ctx, FirewallRuleQuery{}) }, []FirewallRule(nil), nil},
		{"listFirewallRules.tagged-by-address", func(c *Client) (any, error) {
			rules, err := c.ListFirewallRules(ctx, FirewallRuleQuery{PublicIPID: "ip"})
			var tagged []string
			for _, r := range rules {
				tagged = append(tagged, fmt.Sprint(r.StartPort, " ", r.Tags["csccm-uid"]))
			}
			return tagged, err
		}, []string{"8082 y", "8081 y"}, map[string]string{"ipaddressid": "ip"}},
		{"listNetworkACLs.tagged", func(c *Client) (any, error) {
			return c.ListNetworkACLs(ctx, NetworkACLQuery{ListID: "l", ProjectID: "-1", Tags: map[string]string{"csccm-uid": "y"}})
		}, []NetworkACL{{
			ID: "5e555bf6-1a85-417e-87b5-d36c99d1b334", ListID: "5200b5e7-2f23-4691-b30c-183abdc10cc5", ListName: "k8s-acl", Number: 12, Protocol: "tcp",
			StartPort: 30081, EndPort: 30081, CIDRs: []string{"10.0.0.0/8"}, Ingress: true, Allow: true, State: "Active", Tags: map[string]string{"csccm-uid": "y"},
		}}, map[string]string{"aclid": "l", "projectid": "-1", "tags[0].key": "csccm-uid", "tags[0].value": "y"}},
		{"listNetworkACLs.tagged-after-update", func(c *Client) (any, error) {
			items, err := c.ListNetworkACLs(ctx, NetworkACLQuery{ID: "a"})
			return []any{items[0].CIDRs, items[0].Tags}, err
		}, []any{[]string{"10.0.0.0/9"}, map[string]string{"csccm-uid": "y"}}, map[string]string{"id": "a"}},
		{"listNetworkACLs.by-aclid", func(c *Client) (any, error) {
			items, err := c.ListNetworkACLs(ctx, NetworkACLQuery{ListID: "l", ProjectID: "p"})
			return []any{len(items), items[0], items[1].StartPort, items[3].Reason, items[4].Allow}, err
		}, []any{8, NetworkACL{
			ID: "d0d2b28b-08de-4f15-a7bd-54a2c38374b8", ListID: "0d3e71ea-e13d-46e7-a2f4-649da239e748", ListName: "acl-b", Number: 12, Protocol: "tcp", StartPort: 88, EndPort: 88,
			CIDRs: []string{"10.0.0.0/8", "172.16.0.0/12"}, Ingress: true, Allow: true, State: "Active",
		}, 0, "k8s service default/x", false}, map[string]string{"aclid": "l", "projectid": "p"}},
		{"listLoadBalancers.by-id-before-assign", func(c *Client) (any, error) {
			return c.ListInternalLoadBalancers(ctx, InternalLoadBalancerQuery{ID: "i"})
		}, []InternalLoadBalancer{{
			ID: "c7394bc2-d327-49e7-b493-e0f902da024e", Name: "ilb-web", Algorithm: "roundrobin", NetworkID: "8ef5c6cc-2c99-418b-9e69-cef056a52fb7", Address: "10.2.9.192",
			Port: 80, InstancePort: 30080, State: "Add",
		}}, map[string]string{"id": "i"}},
		{"listPortForwardingRules.by-ip", func(c *Client) (any, error) {
			return c.ListPortForwardings(ctx, PortForwardingQuery{ID: "f", PublicIPID: "ip"})
		}, []PortForwarding{{
			ID: "f4ca01c3-5fb5-424a-9e48-2532ac3fedfd", PublicIPID: "42df0afe-ce14-4cda-85d3-7d1b894e0804", PublicIP: "192.168.2.6", NetworkID: "736af895-fad5-4e47-8cc7-0dc4913100d1",
			Protocol: "tcp", StartPort: 2222, EndPort: 2222, PrivatePort: 22, VMID: "f1db34f8-ed2e-4d48-8931-dc1a06f72c9c", VMName: "node-1", GuestIP: "10.1.1.178", State: "Active",
			CIDRs: []string{},
		}}, map[string]string{"id": "f", "ipaddressid": "ip"}},
		{"listPortForwardingRules.cidrs-after", func(c *Client) (any, error) {
			var out []string
			forwards, err := c.ListPortForwardings(ctx, PortForwardingQuery{})
			for _, f := range forwards {
				out = append(out, strings.Join(f.CIDRs, " "))
			}
			return out, err
		}, []string{"", "10.1.2.3/8", "10.0.0.0/8 192.168.0.0/16", "", "10.0.0.0/8", "128.0.0.0/1", "0.0.0.0/2"}, nil},
		{"listLBStickinessPolicies.empty", func(c *Client) (any, error) { return c.ListStickinessPolicies(ctx, "r") }, []StickinessPolicy(nil), nil},
		{"listKubernetesClusters.by-id-with-vms", func(c *Client) (any, error) { return c.ListKubernetesClusters(ctx, "p") }, []KubernetesCluster{{
			ID: "4be17028-6145-408b-b431-52c8074ea5fe", Name: "ext0", Type: ExternalManaged, Description: "x",
			VMs: []string{"f1db34f8-ed2e-4d48-8931-dc1a06f72c9c", "c6b00d13-fbaf-44cd-ba24-6f90b660474b", "8648015f-e2d3-484f-b6a1-5b19593d0869", "fae1c4e4-86fe-46d9-b8e9-88a96136e04f"},
		}}, map[string]string{"projectid": "p"}},
		{"listZones.all", func(c *Client) (any, error) { return c.ListZones(ctx) }, []Zone{{ID: "a8885454-8c33-4770-9640-f2234fce520e", Name: "Sandbox-simulator"}}, nil},
		{"listProjects.user", func(c *Client) (any, error) { return c.ListProjects(ctx) },
			[]Project{{ID: "88cb8c8f-bbea-4de1-b9f3-43f13e68fc29", Name: "k8s-project", State: "Active", DomainID: "0ab018e4-71f8-456c-ae10-4634d0077d6d"}}, nil},
		{"listApis.one", func(c *Client) (any, error) {
			apis, err := c.ListAPIs(ctx)
			return sets.List(apis), err
		}, []string{"createLoadBalancerRule"}, nil},
		{"smallpage.listCapabilities", func(c *Client) (any, error) { return c.Capabilities(ctx) }, &Capabilities{Version: "4.22.0.0-SNAPSHOT"}, nil},
		{"customjobid.queryAsyncJobResult", func(c *Client) (any, error) { return c.QueryJob(ctx, "dc2eb06a-f9e1-44a8-89f4-6466ac31e033") },
			&Job{hasResult: true, ID: "dc2eb06a-f9e1-44a8-89f4-6466ac31e033", Status: JobSucceeded, InstanceID: "ee411ea3-002c-4d98-95ce-aa1d7c490e8c", Acquired: &PublicIP{
				ID: "ee411ea3-002c-4d98-95ce-aa1d7c490e8c", Address: "192.168.2.10", State: "Allocating", Allocated: "2026-11-21T11:02:46+0000",
				AssociatedNetworkID: "10b97771-0b21-4881-aa82-bde263fd5761",
			}},
			map[string]string{"jobid": "dc2eb06a-f9e1-44a8-89f4-6466ac31e033"}},
		// A job that failed is an answer, not an error of the call.
		{"createTags.duplicate-key.job-failure", func(c *Client) (any, error) {
			job, err := c.QueryJob(ctx, "x")
			return []any{job.Status, job.ResultCode, job.ErrorText}, err
		}, []any{JobFailed, 530, "tag svc already on LoadBalancer with id 57f15283-069f-41ce-ac33-686744277e08"}, nil},
		{"associateIpAddress.isolated.job-pending", func(c *Client) (any, error) { job, err := c.QueryJob(ctx, "x"); return job.Status, err }, JobPending, nil},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			t.Parallel()
			f := goldenAPI(t, tc.golden)
			got, err := tc.call(f.client(t))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			calls := f.recorded()
			require.Equal(t, apiPath, calls[0].URL)
			for name, want := range tc.params {
				require.Equal(t, want, calls[0].Form.Get(name), name)
			}
		})
	}
}

// What the SDK's types cannot read: numbers and booleans as text, and arrays of objects that they take for arrays of strings.
func TestListVirtualMachinesOddities(t *testing.T) {
	t.Parallel()
	body := `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"v","name":"n","state":"Running","hostid":"h","hostname":"kvm-1","affinitygroup":[{"id":"a","name":"spread","type":"host anti-affinity"}],"publicip":"203.0.113.9",
	 "tags":[{"key":"a","value":"1"},{"key":"b","value":2}],
	 "nic":[{"id":"n1","deviceid":"0","isdefault":false,"ip6address":"2001:db8::1","extradhcpoption":[{"id":"x","nicid":"n1","extradhcpoptioncode":66,"extradhcpvalue":"y"}]},
	        {"id":"n3","deviceid":"2","isdefault":false},{"id":"n2","deviceid":1,"isdefault":true,"ipaddress":"10.0.0.2","publicip":"203.0.113.9","secondaryip":[{"id":"s","ipaddress":"10.0.0.3"},{"ipaddress":"2001:db8::3"}]}],
	 "vnfnics":[{"deviceid":0}]}]}}`
	f := always(jsonReply(200, body))
	vms, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{WithOffering: true, WithAffinityGroups: true})
	require.NoError(t, err)
	require.Equal(t, "nics,servoff,affgrp", f.recorded()[0].Form.Get("details"))
	require.Equal(t, []AffinityGroup{{ID: "a", Name: "spread"}}, vms[0].AffinityGroups)
	require.Equal(t, "kvm-1", vms[0].HostName)
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, vms[0].Tags)
	nics := vms[0].NICs
	require.Equal(t, []string{"n2", "n1", "n3"}, []string{nics[0].ID, nics[1].ID, nics[2].ID}, "the default NIC first, then by device")
	require.Equal(t, []string{"10.0.0.3", "2001:db8::3"}, nics[0].SecondaryIP)
	require.Equal(t, "2001:db8::1", nics[1].IPv6)
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
			f := newFakeAPI(pagedVMs(tc.n, tc.max, nil))
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
		f := newFakeAPI(pagedVMs(501, 500, func(_, page int, _ *int, ids *[]string) {
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
		f := newFakeAPI(pagedVMs(10, 500, func(_, page int, _ *int, ids *[]string) {
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
		f := newFakeAPI(pagedVMs(600, 500, func(calls, page int, count *int, ids *[]string) {
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
		f := newFakeAPI(pagedVMs(600, 500, func(calls, page int, _ *int, ids *[]string) {
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
		f := newFakeAPI(pagedVMs(600, 500, func(calls, _ int, count *int, _ *[]string) { *count += calls }))
		_, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
		require.True(t, IsKind(err, KindTransient), "%v", err)
		require.LessOrEqual(t, len(f.recorded()), 2*listAttempts)
	})
	t.Run("an error on a later page", func(t *testing.T) {
		t.Parallel()
		answer := pagedVMs(600, 500, nil)
		f := newFakeAPI(func(n int, form url.Values) reply {
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
		f := always(jsonReply(200, `{"listzonesresponse":{"zone":[{"id":"a"},{"id":"b"}]}}`))
		zones, err := f.client(t).ListZones(t.Context())
		require.NoError(t, err)
		require.Len(t, zones, 2)
	})
	t.Run("members are cut", func(t *testing.T) {
		t.Parallel()
		f := always(jsonReply(200, `{"x":{"count":2,"lbrulevmidip":[{"loadbalancerruleinstance":{"id":"a"}}]}}`))
		_, err := f.client(t).ListLoadBalancerMembers(t.Context(), "r")
		require.True(t, IsKind(err, KindTransient), "%v", err)
	})
}
