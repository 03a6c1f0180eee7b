// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestParseCIDRs(t *testing.T) {
	t.Parallel()
	got, err := ParseCIDRs(" 10.1.2.3/8 , 2001:db8::1, ,::ffff:192.0.2.1")
	require.NoError(t, err)
	assert.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128"), netip.MustParsePrefix("192.0.2.1/32")}, got)
	got, err = ParseCIDRs("")
	require.NoError(t, err)
	assert.Empty(t, got)
	for _, bad := range []string{"10.0.0.0/33", "lan", "fe80::1%eth0", "10.0.0.0/8;10.1.0.0/16"} {
		_, err := ParseCIDRs(bad)
		require.ErrorContains(t, err, "is no network", bad)
	}
}

func TestAddressRules(t *testing.T) {
	t.Parallel()
	vm := cloudstack.VirtualMachine{ID: someID, PublicIP: "203.0.113.7", NICs: []cloudstack.NIC{
		{Default: true, Type: "Isolated", IPv4: "10.1.1.5", IPv6: "2001:db8:1::5", PublicIP: "203.0.113.7"},
		{Type: "Isolated", IPv4: "192.168.1.5"},
		{Type: "Shared", IPv4: "198.51.100.5"},
	}}
	for _, c := range []struct {
		name               string
		internal, external string
		node               []nodeOption
		want               []string
		err                string
	}{
		{name: "no rules", want: []string{"InternalIP 10.1.1.5", "InternalIP 2001:db8:1::5", "InternalIP 192.168.1.5", "ExternalIP 198.51.100.5", "ExternalIP 203.0.113.7", "Hostname n"}},
		{name: "one network", internal: "192.168.0.0/16", want: []string{"InternalIP 192.168.1.5", "ExternalIP 203.0.113.7", "Hostname n"}},
		{name: "IPv6 first", internal: "::/0,10.0.0.0/8", want: []string{"InternalIP 2001:db8:1::5", "InternalIP 10.1.1.5", "ExternalIP 203.0.113.7", "Hostname n"}},
		{name: "external", external: "198.51.100.0/24", want: []string{"InternalIP 10.1.1.5", "InternalIP 2001:db8:1::5", "InternalIP 192.168.1.5", "ExternalIP 198.51.100.5", "Hostname n"}},
		{name: "external, NAT first", external: "203.0.113.0/24,198.51.100.0/24", internal: "10.0.0.0/8", want: []string{"InternalIP 10.1.1.5", "ExternalIP 203.0.113.7", "ExternalIP 198.51.100.5", "Hostname n"}},
		{name: "the external list wins", external: "192.168.0.0/16", internal: "192.168.0.0/16,10.0.0.0/8", want: []string{"InternalIP 10.1.1.5", "ExternalIP 192.168.1.5", "Hostname n"}},
		{
			name: "no address in the networks: the Node keeps its addresses", internal: "172.16.0.0/12", node: []nodeOption{address(corev1.NodeInternalIP, "10.1.1.5")},
			want: []string{"ExternalIP 203.0.113.7", "InternalIP 10.1.1.5", "Hostname n"},
		},
		{
			name: "annotations win", internal: "10.0.0.0/8", external: "198.51.100.0/24",
			node: []nodeOption{annotation(AnnotationInternalCIDRs, "192.168.0.0/16"), annotation(AnnotationExternalCIDRs, "")},
			want: []string{"InternalIP 192.168.1.5", "ExternalIP 203.0.113.7", "Hostname n"},
		},
		{
			name: "an invalid annotation is ignored", internal: "10.0.0.0/8",
			node: []nodeOption{annotation(AnnotationInternalCIDRs, "office")},
			want: []string{"InternalIP 10.1.1.5", "ExternalIP 203.0.113.7", "Hostname n"},
			err:  `annotation csccm.io/node-internal-cidrs: "office" is no network`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var rules AddressRules
			var err error
			rules.Internal, err = ParseCIDRs(c.internal)
			require.NoError(t, err)
			rules.External, err = ParseCIDRs(c.external)
			require.NoError(t, err)
			n := newNode("n", c.node...)
			assert.Equal(t, c.want, described(t, vm, Options{Node: n, Addresses: rules}))
			_, err = rules.Of(n, &vm)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

func TestUnlistedNodeIPs(t *testing.T) {
	t.Parallel()
	listed := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.5"}, {Type: corev1.NodeInternalIP, Address: "2001:db8::5"}}
	for told, want := range map[string][]string{
		"": nil, "10.1.1.5": nil, "10.1.1.5,2001:DB8::5": nil, "10.1.1.6": {"10.1.1.6"}, "10.1.1.5,fd00::1": {"fd00::1"}, "::ffff:10.1.1.5": nil,
	} {
		assert.Equal(t, want, UnlistedNodeIPs(newNode("n", provided(told)), listed), told)
	}
	assert.Nil(t, UnlistedNodeIPs(nil, listed))
}

func FuzzAddresses(f *testing.F) {
	f.Add("10.1.1.5", "2001:db8::5", "203.0.113.7", "Shared", "10.0.0.0/8", "::/0", "10.1.1.5")
	f.Add("", "", "", "", "", "", "")
	f.Add("::ffff:10.0.0.1", "fe80::1%eth0", "-", "L2", "0.0.0.0/0,::/0", "lan", "a,b,,")
	f.Fuzz(func(t *testing.T, v4, v6, nat, kind, internal, external, told string) {
		vm := cloudstack.VirtualMachine{ID: someID, PublicIP: nat, NICs: []cloudstack.NIC{
			{Default: true, Type: kind, IPv4: v4, IPv6: v6}, {Type: kind, IPv4: nat, PublicIP: v4},
		}}
		n := newNode("n", provided(told), annotation(AnnotationInternalCIDRs, internal), annotation(AnnotationExternalCIDRs, external))
		m, err := Metadata(vm, Options{Node: n})
		require.NoError(t, err)
		seen := map[corev1.NodeAddress]bool{}
		for _, a := range m.NodeAddresses {
			assert.False(t, seen[a], "%v twice", a)
			seen[a] = true
			if a.Type == corev1.NodeHostName {
				continue
			}
			_, err := netip.ParseAddr(a.Address)
			require.NoError(t, err)
		}
	})
}
