// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWritesRecorded sends every write and reads the recorded first answer.
func TestWritesRecorded(t *testing.T) {
	t.Parallel()
	two := []string{"10.0.0.0/8", "192.168.0.0/16"}
	for name, tc := range map[string]struct {
		golden string
		call   func(ctx context.Context, c *Client) (Submitted, error)
		want   map[string]string // parameters, besides those of every call
		hasID  bool
	}{
		"associate": {"associateIpAddress.isolated", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.AssociateIP(ctx, AssociateIPRequest{NetworkID: "n", ProjectID: "p", Address: "203.0.113.7", CustomJobID: "u"})
		}, map[string]string{"networkid": "n", "projectid": "p", "ipaddress": "203.0.113.7", "customjobid": "u"}, true},
		"disassociate": {"disassociateIpAddress.ok", func(ctx context.Context, c *Client) (Submitted, error) { return c.DisassociateIP(ctx, "i") },
			map[string]string{"id": "i"}, false},
		"create rule": {"createLoadBalancerRule.cidrlist", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateLoadBalancerRule(ctx, CreateLoadBalancerRuleRequest{
				Name: "r", Description: "d", Algorithm: "source", Protocol: "tcp-proxy", PublicIPID: "i", NetworkID: "n",
				PublicPort: 80, PrivatePort: 30080, CIDRs: two,
			})
		}, map[string]string{"name": "r", "description": "d", "algorithm": "source", "protocol": "tcp-proxy", "publicipid": "i", "networkid": "n",
			"publicport": "80", "privateport": "30080", "cidrlist": "10.0.0.0/8,192.168.0.0/16", "openfirewall": "false"}, true},
		"create rule, little": {"createLoadBalancerRule.cidrlist", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateLoadBalancerRule(ctx, CreateLoadBalancerRuleRequest{Name: "r", Algorithm: "roundrobin", PublicIPID: "i", PublicPort: 1, PrivatePort: 2, OpenFirewall: true})
		}, map[string]string{"name": "r", "algorithm": "roundrobin", "publicipid": "i", "publicport": "1", "privateport": "2", "openfirewall": "true"}, true},
		"update rule": {"updateLoadBalancerRule.algorithm", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.UpdateLoadBalancerRule(ctx, UpdateLoadBalancerRuleRequest{ID: "r", Name: "n", Algorithm: "source", Protocol: "tcp", Description: "d", CIDRs: two})
		}, map[string]string{"id": "r", "name": "n", "algorithm": "source", "protocol": "tcp", "description": "d", "cidrlist": "10.0.0.0/8,192.168.0.0/16"}, false},
		"delete rule": {"deleteLoadBalancerRule.ok", func(ctx context.Context, c *Client) (Submitted, error) { return c.DeleteLoadBalancerRule(ctx, "r") },
			map[string]string{"id": "r"}, false},
		"assign": {"assignToLoadBalancerRule.one", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.AssignToLoadBalancerRule(ctx, "r", VMs("a", "b"))
		}, map[string]string{"id": "r", "virtualmachineids": "a,b"}, false},
		"remove": {"removeFromLoadBalancerRule.one", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.RemoveFromLoadBalancerRule(ctx, "r", []MemberAddress{{VMID: "a"}, {VMID: "b", IP: "10.1.1.9"}, {VMID: "c", IP: "10.1.1.8"}})
		}, map[string]string{"id": "r", "virtualmachineids": "a", "vmidipmap[0].vmid": "b", "vmidipmap[0].vmip": "10.1.1.9", "vmidipmap[1].vmid": "c", "vmidipmap[1].vmip": "10.1.1.8"}, false},
		"create ACL item": {"createNetworkACL.reason", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateNetworkACL(ctx, CreateNetworkACLRequest{ListID: "l", Protocol: "tcp", StartPort: 80, EndPort: 81, CIDRs: two, Number: 7, Reason: "why"})
		}, map[string]string{"aclid": "l", "protocol": "tcp", "startport": "80", "endport": "81", "cidrlist": "10.0.0.0/8,192.168.0.0/16", "number": "7",
			"reason": "why", "traffictype": "Ingress", "action": "Allow"}, true},
		"delete ACL item": {"deleteNetworkACL.ok", func(ctx context.Context, c *Client) (Submitted, error) { return c.DeleteNetworkACL(ctx, "a") },
			map[string]string{"id": "a"}, false},
		"create stickiness": {"createLBStickinessPolicy.sourcebased", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateStickinessPolicy(ctx, "r", StickinessPolicy{Name: "s", Method: "SourceBased", Params: map[string]string{"tablesize": "200k", "expire": "30m"}})
		}, map[string]string{"lbruleid": "r", "name": "s", "methodname": "SourceBased", "param[0].name": "expire", "param[0].value": "30m",
			"param[1].name": "tablesize", "param[1].value": "200k"}, true},
		"assign certificate": {"assignCertToLoadBalancer.ok", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.AssignCertificate(ctx, "r", "c")
		}, map[string]string{"lbruleid": "r", "certid": "c", "forced": "true"}, false},
		"create internal": {"createLoadBalancer.ok", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateInternalLoadBalancer(ctx, CreateInternalLoadBalancerRequest{Name: "n", Algorithm: "source", NetworkID: "t", Address: "10.2.9.9", Port: 80, InstancePort: 30080})
		}, map[string]string{"name": "n", "algorithm": "source", "networkid": "t", "sourceipaddressnetworkid": "t", "sourceipaddress": "10.2.9.9",
			"sourceport": "80", "instanceport": "30080", "scheme": "Internal"}, true},
		"create firewall rule": {"createFirewallRule.ok", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateFirewallRule(ctx, CreateFirewallRuleRequest{PublicIPID: "i", Protocol: "tcp", StartPort: 80, EndPort: 90, CIDRs: two})
		}, map[string]string{"ipaddressid": "i", "protocol": "tcp", "startport": "80", "endport": "90", "cidrlist": "10.0.0.0/8,192.168.0.0/16"}, true},
		"create firewall rule, one port": {"createFirewallRule.ok", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateFirewallRule(ctx, CreateFirewallRuleRequest{PublicIPID: "i", Protocol: "tcp", StartPort: 80, CIDRs: []string{"0.0.0.0/0"}})
		}, map[string]string{"ipaddressid": "i", "protocol": "tcp", "startport": "80", "endport": "80", "cidrlist": "0.0.0.0/0"}, true},
		"create firewall rule, all ports": {"createFirewallRule.ok", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateFirewallRule(ctx, CreateFirewallRuleRequest{PublicIPID: "i", Protocol: "udp", CIDRs: []string{"10.0.0.0/8"}})
		}, map[string]string{"ipaddressid": "i", "protocol": "udp", "cidrlist": "10.0.0.0/8"}, true},
		"forward": {"createPortForwardingRule.cidr-several", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreatePortForwarding(ctx, CreatePortForwardingRequest{
				PublicIPID: "i", Protocol: "udp", VMID: "v", GuestIP: "10.1.1.9", NetworkID: "n", PublicPort: 53, PrivatePort: 30053, CIDRs: two,
			})
		}, map[string]string{"ipaddressid": "i", "protocol": "udp", "virtualmachineid": "v", "vmguestip": "10.1.1.9", "networkid": "n", "publicport": "53",
			"privateport": "30053", "cidrlist": "10.0.0.0/8,192.168.0.0/16", "openfirewall": "false"}, true},
		"forward, little": {"createPortForwardingRule.udp", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreatePortForwarding(ctx, CreatePortForwardingRequest{PublicIPID: "i", Protocol: "udp", VMID: "v", PublicPort: 53, PrivatePort: 30053})
		}, map[string]string{"ipaddressid": "i", "protocol": "udp", "virtualmachineid": "v", "publicport": "53", "privateport": "30053", "openfirewall": "false"}, true},
		"move a forward": {"updatePortForwardingRule.vm", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.UpdatePortForwarding(ctx, UpdatePortForwardingRequest{ID: "f", VMID: "v"})
		}, map[string]string{"id": "f", "virtualmachineid": "v"}, false},
		"change a forward": {"updatePortForwardingRule.vm", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.UpdatePortForwarding(ctx, UpdatePortForwardingRequest{ID: "f", VMID: "v", GuestIP: "10.1.1.9", PrivatePort: 30054, CIDRs: two})
		}, map[string]string{"id": "f", "virtualmachineid": "v", "vmguestip": "10.1.1.9", "privateport": "30054", "cidrlist": "10.0.0.0/8,192.168.0.0/16"}, false},
		"delete a forward": {"deletePortForwardingRule.ok", func(ctx context.Context, c *Client) (Submitted, error) { return c.DeletePortForwarding(ctx, "f") },
			map[string]string{"id": "f"}, false},
		"tag a forward": {"createTags.port-forwarding", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateTags(ctx, ResourcePortForwarding, []string{"a"}, map[string]string{"k": "v"})
		}, map[string]string{"resourcetype": "PortForwardingRule", "resourceids": "a", "tags[0].key": "k", "tags[0].value": "v"}, false},
		"delete firewall rule": {"deleteFirewallRule.ok", func(ctx context.Context, c *Client) (Submitted, error) { return c.DeleteFirewallRule(ctx, "f") },
			map[string]string{"id": "f"}, false},
		"create tags": {"createTags.two-resources", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateTags(ctx, ResourceRule, []string{"a", "b"}, map[string]string{"k2": "v2", "k1": "v1"})
		}, map[string]string{"resourcetype": "LoadBalancer", "resourceids": "a,b", "tags[0].key": "k1", "tags[0].value": "v1", "tags[1].key": "k2", "tags[1].value": "v2"}, false},
		"tag firewall rules": {"createTags.firewall-rules-two", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateTags(ctx, ResourceFirewallRule, []string{"a", "b"}, map[string]string{"k": "v"})
		}, map[string]string{"resourcetype": "FirewallRule", "resourceids": "a,b", "tags[0].key": "k", "tags[0].value": "v"}, false},
		"tag an ACL item": {"createTags.acl-item", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.CreateTags(ctx, ResourceNetworkACL, []string{"a"}, map[string]string{"k": "v"})
		}, map[string]string{"resourcetype": "NetworkACL", "resourceids": "a", "tags[0].key": "k", "tags[0].value": "v"}, false},
		"delete tags": {"deleteTags.one", func(ctx context.Context, c *Client) (Submitted, error) {
			return c.DeleteTags(ctx, "LoadBalancer", []string{"a"}, []string{"k2", "k1"})
		}, map[string]string{"resourcetype": "LoadBalancer", "resourceids": "a", "tags[0].key": "k1", "tags[1].key": "k2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := golden(t, tc.golden)
			f := always(replay(g))
			s, err := tc.call(t.Context(), f.client(t))
			require.NoError(t, err)
			require.NotEmpty(t, s.JobID)
			require.Equal(t, tc.hasID, s.ID != "")
			calls := f.recorded()
			require.Len(t, calls, 1)
			got := map[string]string{}
			for k := range calls[0].Form {
				got[k] = calls[0].Form.Get(k)
			}
			require.Equal(t, g.Command, got["command"])
			for _, k := range []string{"command", "response", "apiKey", "signature", "signatureversion", "expires"} {
				delete(got, k)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestWritesThatWouldDoTooMuch(t *testing.T) {
	t.Parallel()
	f := always(jsonReply(200, `{"x":{"id":"i","jobid":"j"}}`))
	c := f.client(t)
	_, err := c.CreateFirewallRule(t.Context(), CreateFirewallRuleRequest{PublicIPID: "i", Protocol: "tcp", StartPort: 80})
	require.True(t, IsKind(err, KindInvalid), "no ranges would mean everyone")
	_, err = c.CreateNetworkACL(t.Context(), CreateNetworkACLRequest{ListID: "l", Protocol: "tcp", StartPort: 80, EndPort: 80, Number: 1})
	require.True(t, IsKind(err, KindInvalid), "no ranges would mean everyone")
	_, err = c.DeleteTags(t.Context(), "LoadBalancer", []string{"a"}, nil)
	require.True(t, IsKind(err, KindInvalid), "no keys would mean all tags")
	require.Empty(t, f.recorded())
}
