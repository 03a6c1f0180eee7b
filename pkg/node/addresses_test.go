// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

func TestParseCIDRs(t *testing.T) {
	t.Parallel()
	got, err := ParseCIDRs(" 10.1.2.3/8 , 2001:db8::1, ,::ffff:192.0.2.1")
	require.NoError(t, err)
	assert.Equal(t,
		[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128"),
			netip.MustParsePrefix("192.0.2.1/32")}, got)
	got, err = ParseCIDRs("")
	require.NoError(t, err)
	assert.Empty(t, got)
	for _, bad := range []string{"10.0.0.0/33", "lan", "fe80::1%eth0", "10.0.0.0/8;10.1.0.0/16"} {
		_, err := ParseCIDRs(bad)
		require.ErrorContains(t, err, "is not a network", bad)
	}
}

func TestAddresses(t *testing.T) {
	cases.Run(t, "testdata/addresses.yaml", func(t *testing.T, _ string, c struct {
		VM                 cloudstack.VirtualMachine
		Internal, External string
		NodeIP             string
		Annotations        map[string]string
		Addresses          []string
		Want               []string
		Error              string
	}) {
		var rules AddressRules
		var err error
		rules.Internal, err = ParseCIDRs(c.Internal)
		require.NoError(t, err)
		rules.External, err = ParseCIDRs(c.External)
		require.NoError(t, err)

		n := newNode("n")
		if c.NodeIP != "" {
			provided(c.NodeIP)(n)
		}
		for name, value := range c.Annotations {
			annotation("csccm.io/node-"+name, value)(n)
		}
		for _, a := range c.Addresses {
			kind, ip, _ := strings.Cut(a, " ")
			address(corev1.NodeAddressType(kind), ip)(n)
		}

		c.VM.ID = someID
		assert.Equal(t, c.Want, described(c.VM, n, Options{Addresses: rules}))
		_, err = rules.Of(n, &c.VM)
		if c.Error == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.Error)
		}
	})
}

func TestAddressesOfManyNICs(t *testing.T) {
	t.Parallel()
	vm := cloudstack.VirtualMachine{ID: someID}
	var want []string
	for i := range 20 {
		ip := fmt.Sprintf("10.0.%d.1", i)
		vm.NICs = append(vm.NICs, cloudstack.NIC{DeviceID: i, IPv4: ip, Default: i == 0})
		want = append(want, "InternalIP "+ip)
	}
	assert.Equal(t, append(want, "Hostname n"), described(vm, newNode("n"), Options{}))
}

func TestUnlistedNodeIPs(t *testing.T) {
	t.Parallel()
	listed := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.1.1.5"},
		{Type: corev1.NodeInternalIP, Address: "2001:db8::5"},
	}
	for told, want := range map[string][]string{
		"":                     nil,
		"10.1.1.5":             nil,
		"10.1.1.5,2001:DB8::5": nil,
		"10.1.1.6":             {"10.1.1.6"},
		"10.1.1.5,fd00::1":     {"fd00::1"},
		"::ffff:10.1.1.5":      nil,
	} {
		assert.Equal(t, want, UnlistedNodeIPs(newNode("n", provided(told)), listed), told)
	}
}

func FuzzAddresses(f *testing.F) {
	f.Add("10.1.1.5", "2001:db8::5", "203.0.113.7", "Shared", "10.0.0.0/8", "::/0", "10.1.1.5")
	f.Add("", "", "", "", "", "", "")
	f.Add("::ffff:10.0.0.1", "fe80::1%eth0", "-", "L2", "0.0.0.0/0,::/0", "lan", "a,b,,")
	f.Fuzz(func(t *testing.T, v4, v6, nat, kind, internal, external, told string) {
		vm := cloudstack.VirtualMachine{ID: someID, PublicIP: nat, NICs: []cloudstack.NIC{
			{Default: true, Type: kind, IPv4: v4, IPv6: v6}, {Type: kind, IPv4: nat, PublicIP: v4},
		}}
		n := newNode("n", provided(told), annotation(AnnotationInternalCIDRs, internal),
			annotation(AnnotationExternalCIDRs, external))
		seen := map[corev1.NodeAddress]bool{}
		for _, a := range Metadata(&vm, n, Options{}).NodeAddresses {
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
