// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/golden"
)

var update = flag.Bool("update", false, "write testdata/calls.txt")

// callLog makes calls to a server with recorded answers, and records what they send and what they decode.
type callLog struct {
	strings.Builder
	t *testing.T
}

func (w *callLog) add(recording string, call func(c *Client) (any, error)) {
	f := goldenAPI(w.t, recording)
	got, err := call(f.client(w.t))
	require.NoError(w.t, err, recording)
	form := f.recorded()[0].Form
	w.WriteString(recording + "\n ")
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if !strings.Contains(" apiKey expires response signature signatureversion ", " "+name+" ") {
			fmt.Fprintf(&w.Builder, " %s=%q", name, form.Get(name))
		}
	}

	if list := reflect.ValueOf(got); list.Kind() == reflect.Slice {
		for i := range list.Len() {
			fmt.Fprintf(&w.Builder, "\n    %+v", list.Index(i))
		}
	} else {
		fmt.Fprintf(&w.Builder, "\n    %+v", reflect.Indirect(list))
	}

	w.WriteString("\n")
}

// ask makes a call with one argument.
func ask[Q, R any](w *callLog, recording string, call func(*Client, context.Context, Q) (R, error), q Q) {
	w.add(recording, func(c *Client) (any, error) { return call(c, w.t.Context(), q) })
}

// TestCallsRecorded compares the calls with testdata/calls.txt.
func TestCallsRecorded(t *testing.T) {
	t.Parallel()
	w, ctx := &callLog{t: t}, t.Context()
	no, two, ab, kv := false, []string{"10.0.0.0/8", "192.168.0.0/16"}, []string{"a", "b"}, map[string]string{"k": "v"}
	ask(w, "listVirtualMachines.details-nics", (*Client).ListVirtualMachines, VMQuery{
		ID: "i", ProjectID: "p", ZoneID: "z", ListAll: true,
	})
	ask(w, "listVirtualMachines.with-secondary-ip", (*Client).ListVirtualMachines, VMQuery{WithOffering: true})
	ask(w, "listNetworks.by-id-k8s-net", (*Client).ListNetworks, NetworkQuery{ID: "x", ListAll: true})
	ask(w, "listNetworks.by-id-k8s-tier", (*Client).ListNetworks, NetworkQuery{})
	ask(w, "listPublicIpAddresses.by-id", (*Client).ListPublicIPs, PublicIPQuery{
		ID: "i", Address: "a", AssociatedNetworkID: "n", ProjectID: "p", State: "s", AllocatedOnly: &no,
	})
	ask(w, "listPublicIpAddresses.by-tag", (*Client).ListPublicIPs, PublicIPQuery{})
	ask(w, "listPublicIpAddresses.by-tag", (*Client).ListPublicIPs, PublicIPQuery{Tags: kv})
	ask(w, "listLoadBalancerRules.by-id-tagged", (*Client).ListLoadBalancerRules, LoadBalancerRuleQuery{ID: "r"})
	ask(w, "listLoadBalancerRules.other-empty", (*Client).ListLoadBalancerRules, LoadBalancerRuleQuery{VMID: "vm"})

	// Rules that were created without a protocol have none.
	ask(w, "listLoadBalancerRules.all", (*Client).ListLoadBalancerRules, LoadBalancerRuleQuery{})
	ask(w, "listLoadBalancerRuleInstances.several-lbvmips", (*Client).ListLoadBalancerMembers, "r")
	ask(w, "listLoadBalancerRuleInstances.primary-and-secondary-lbvmips", (*Client).ListLoadBalancerMembers, "r")
	ask(w, "listLoadBalancerRuleInstances.applied-false", (*Client).ListLoadBalancerMembers, "r")
	ask(w, "listFirewallRules.by-ipaddressid", (*Client).ListFirewallRules, FirewallRuleQuery{PublicIPID: "ip"})
	ask(w, "listFirewallRules.by-tag", (*Client).ListFirewallRules, FirewallRuleQuery{ProjectID: "-1"})
	ask(w, "listFirewallRules.by-tag-of-others", (*Client).ListFirewallRules, FirewallRuleQuery{})
	ask(w, "listFirewallRules.tagged-by-address", (*Client).ListFirewallRules, FirewallRuleQuery{PublicIPID: "ip"})
	ask(w, "listNetworkACLs.tagged", (*Client).ListNetworkACLs, NetworkACLQuery{ListID: "l", ProjectID: "-1"})
	ask(w, "listNetworkACLs.tagged-after-update", (*Client).ListNetworkACLs, NetworkACLQuery{})
	ask(w, "listNetworkACLs.by-aclid", (*Client).ListNetworkACLs, NetworkACLQuery{ListID: "l", ProjectID: "p"})
	ask(w, "listLoadBalancers.by-id-before-assign", (*Client).ListInternalLoadBalancers,
		InternalLoadBalancerQuery{ID: "i"})
	ask(w, "listPortForwardingRules.by-ip", (*Client).ListPortForwardings, PortForwardingQuery{PublicIPID: "ip"})
	ask(w, "listPortForwardingRules.cidrs-after", (*Client).ListPortForwardings, PortForwardingQuery{Tags: kv})
	ask(w, "listLBStickinessPolicies.empty", (*Client).ListStickinessPolicies, "r")
	ask(w, "listKubernetesClusters.by-id-with-vms", (*Client).ListKubernetesClusters, "p")
	w.add("listZones.all", func(c *Client) (any, error) { return c.ListZones(ctx) })
	w.add("listProjects.user", func(c *Client) (any, error) { return c.ListProjects(ctx) })
	w.add("listApis.one", func(c *Client) (any, error) { return c.ListAPIs(ctx) })
	w.add("smallpage.listCapabilities", func(c *Client) (any, error) { return c.Capabilities(ctx) })
	w.add("customjobid.queryAsyncJobResult", func(c *Client) (any, error) {
		job, err := c.QueryJob(ctx, "dc2eb06a-f9e1-44a8-89f4-6466ac31e033")
		return []any{job.ID, job.Status, job.InstanceID, *job.Acquired}, err
	})

	// A job that failed is an answer, not an error of the call.
	ask(w, "createTags.duplicate-key.job-failure", (*Client).QueryJob, "x")
	ask(w, "associateIpAddress.isolated.job-pending", (*Client).QueryJob, "x")
	ask(w, "associateIpAddress.isolated", (*Client).AssociateIP, AssociateIPRequest{
		NetworkID: "n", ProjectID: "p", Address: "203.0.113.7", CustomJobID: "u",
	})
	ask(w, "disassociateIpAddress.ok", (*Client).DisassociateIP, "i")
	ask(w, "createLoadBalancerRule.cidrlist", (*Client).CreateLoadBalancerRule, CreateLoadBalancerRuleRequest{
		Name: "r", Description: "d", Algorithm: "source", Protocol: "tcp-proxy", PublicIPID: "i", NetworkID: "n",
		PublicPort: 80, PrivatePort: 30080, CIDRs: two,
	})

	ask(w, "createLoadBalancerRule.cidrlist", (*Client).CreateLoadBalancerRule, CreateLoadBalancerRuleRequest{
		Name: "r", Algorithm: "roundrobin", PublicIPID: "i", PublicPort: 1, PrivatePort: 2,
	})
	ask(w, "updateLoadBalancerRule.algorithm", (*Client).UpdateLoadBalancerRule, UpdateLoadBalancerRuleRequest{
		ID: "r", Name: "n", Algorithm: "source", Protocol: "tcp", CIDRs: two,
	})
	w.add("deleteLoadBalancerRule.ok", func(c *Client) (any, error) {
		return c.Delete(ctx, "deleteLoadBalancerRule", "r")
	})
	w.add("assignToLoadBalancerRule.one", func(c *Client) (any, error) {
		return c.AssignToLoadBalancerRule(ctx, "r", []MemberAddress{{VMID: "a"}, {VMID: "b"}})
	})
	w.add("removeFromLoadBalancerRule.one", func(c *Client) (any, error) {
		return c.RemoveFromLoadBalancerRule(ctx, "r", []MemberAddress{
			{VMID: "a"}, {VMID: "b", IP: "10.1.1.9"}, {VMID: "c", IP: "10.1.1.8"},
		})
	})

	ask(w, "createNetworkACL.reason", (*Client).CreateNetworkACL, CreateNetworkACLRequest{
		ListID: "l", Protocol: "tcp", StartPort: 80, EndPort: 81, CIDRs: two, Number: 7, Reason: "why",
	})
	w.add("createLBStickinessPolicy.sourcebased", func(c *Client) (any, error) {
		return c.CreateStickinessPolicy(ctx, "r", StickinessPolicy{
			Name: "s", Method: "SourceBased", Params: map[string]string{"tablesize": "200k", "expire": "30m"},
		})
	})

	w.add("assignCertToLoadBalancer.ok", func(c *Client) (any, error) { return c.AssignCertificate(ctx, "r", "c") })
	ask(w, "createLoadBalancer.ok", (*Client).CreateInternalLoadBalancer, CreateInternalLoadBalancerRequest{
		Name: "n", Algorithm: "source", NetworkID: "t", Address: "10.2.9.9", Port: 80, InstancePort: 30080,
	})
	ask(w, "createFirewallRule.ok", (*Client).CreateFirewallRule, CreateFirewallRuleRequest{
		PublicIPID: "i", Protocol: "tcp", StartPort: 80, EndPort: 90, CIDRs: two,
	})

	// The first rule opens one port, the second one opens all ports.
	ask(w, "createFirewallRule.ok", (*Client).CreateFirewallRule, CreateFirewallRuleRequest{
		PublicIPID: "i", Protocol: "tcp", StartPort: 80, CIDRs: two,
	})
	ask(w, "createFirewallRule.ok", (*Client).CreateFirewallRule, CreateFirewallRuleRequest{
		PublicIPID: "i", Protocol: "udp", CIDRs: two,
	})
	ask(w, "createPortForwardingRule.cidr-several", (*Client).CreatePortForwarding, CreatePortForwardingRequest{
		PublicIPID: "i", Protocol: "udp", VMID: "v", GuestIP: "10.1.1.9", NetworkID: "n", PublicPort: 53,
		PrivatePort: 30053, CIDRs: two,
	})

	ask(w, "createPortForwardingRule.udp", (*Client).CreatePortForwarding, CreatePortForwardingRequest{
		PublicIPID: "i", Protocol: "udp", VMID: "v", PublicPort: 53, PrivatePort: 53,
	})
	ask(w, "updatePortForwardingRule.vm", (*Client).UpdatePortForwarding,
		UpdatePortForwardingRequest{ID: "f", VMID: "v"})
	ask(w, "updatePortForwardingRule.vm", (*Client).UpdatePortForwarding, UpdatePortForwardingRequest{
		ID: "f", VMID: "v", GuestIP: "10.1.1.9", PrivatePort: 30054, CIDRs: two,
	})
	w.add("createTags.port-forwarding", func(c *Client) (any, error) {
		return c.CreateTags(ctx, "PortForwardingRule", ab[:1], kv)
	})
	w.add("createTags.two-resources", func(c *Client) (any, error) {
		return c.CreateTags(ctx, "LoadBalancer", ab, map[string]string{"k2": "v2", "k1": "v1"})
	})
	w.add("createTags.firewall-rules-two", func(c *Client) (any, error) {
		return c.CreateTags(ctx, "FirewallRule", ab, kv)
	})
	w.add("createTags.acl-item", func(c *Client) (any, error) { return c.CreateTags(ctx, "NetworkACL", ab[:1], kv) })
	w.add("deleteTags.one", func(c *Client) (any, error) {
		return c.DeleteTags(ctx, "LoadBalancer", ab[:1], []string{"k2", "k1"})
	})
	golden.File(t, "testdata/calls.txt", w.String(), *update, "go test ./pkg/cloudstack -run TestCallsRecorded -update")
}

func TestWritesThatWouldDoTooMuch(t *testing.T) {
	t.Parallel()
	f, ctx := always(jsonReply(200, `{"x":{"id":"i","jobid":"j"}}`)), t.Context()
	c := f.client(t)
	_, everyone := c.CreateFirewallRule(ctx, CreateFirewallRuleRequest{PublicIPID: "i", Protocol: "tcp", StartPort: 80})
	_, alike := c.CreateNetworkACL(ctx,
		CreateNetworkACLRequest{ListID: "l", Protocol: "tcp", StartPort: 80, EndPort: 80, Number: 1})
	_, allTags := c.DeleteTags(ctx, "LoadBalancer", []string{"a"}, nil)
	for _, err := range []error{everyone, alike, allTags} {
		require.True(t, IsKind(err, KindInvalid), "%v", err)
	}
	require.Empty(t, f.recorded())
}
