// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	cloudnodeutil "k8s.io/cloud-provider/node/helpers"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestMetadata(t *testing.T) {
	t.Parallel()
	one := cloudstack.VirtualMachine{
		ID: someID, Name: "w1", ZoneName: "zone-1", ServiceOfferingName: "Small Instance",
		NICs: []cloudstack.NIC{{Default: true, IPv4: "10.1.1.21"}},
	}
	m, err := Metadata(one, Options{Node: newNode("w1")})
	require.NoError(t, err)
	assert.Equal(t, "external-cloudstack://"+someID, m.ProviderID)
	assert.Equal(t, "Small_Instance", m.InstanceType)
	assert.Equal(t, "zone-1", m.Zone)
	assert.Equal(t, "zone-1", m.Region)
	assert.Equal(t, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.21"}, {Type: corev1.NodeHostName, Address: "w1"}}, m.NodeAddresses)
	assert.Empty(t, m.AdditionalLabels)

	one.ZoneName = "Zürich (main)"
	m, err = Metadata(one, Options{Node: newNode("w1", providerID("k3s://w1")), Form: FormClusterAPI, LabelForm: LabelUpstream, Region: "Europe West"})
	require.NoError(t, err)
	assert.Equal(t, "k3s://w1", m.ProviderID, "a provider id that is set stays")
	assert.Equal(t, "SmallInstance", m.InstanceType)
	assert.Equal(t, "Z_rich__main", m.Zone)
	assert.Equal(t, "Europe_West", m.Region)

	m, err = Metadata(one, Options{Form: FormClusterAPI})
	require.NoError(t, err)
	assert.Equal(t, "cloudstack:///"+someID, m.ProviderID)
	assert.Equal(t, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.21"}}, m.NodeAddresses, "without a Node, no host name")

	_, err = Metadata(cloudstack.VirtualMachine{Name: "x"}, Options{})
	require.Error(t, err)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	many := make([]cloudstack.NIC, 20)
	wantMany := make([]string, len(many), len(many)+1)
	for i := range many {
		many[i] = cloudstack.NIC{DeviceID: i, IPv4: fmt.Sprintf("10.0.%d.1", i), Default: i == 0}
		wantMany[i] = fmt.Sprintf("InternalIP 10.0.%d.1", i)
	}
	for _, c := range []struct {
		name string
		vm   cloudstack.VirtualMachine
		node []nodeOption
		want []string
	}{
		{name: "no NIC, nothing known"},
		{
			name: "no NIC: the Node keeps its addresses", node: []nodeOption{address(corev1.NodeInternalIP, "10.9.9.9"), address(corev1.NodeHostName, "kubelet")},
			want: []string{"InternalIP 10.9.9.9", "Hostname n"},
		},
		{
			name: "an L2 network: the kubelet's --node-ip",
			vm:   cloudstack.VirtualMachine{NICs: []cloudstack.NIC{{Default: true, Type: "L2"}}},
			node: []nodeOption{provided("192.168.7.7, fd00::7")},
			want: []string{"InternalIP 192.168.7.7", "InternalIP fd00::7", "Hostname n"},
		},
		{
			name: "dual stack, shared network, static NAT",
			vm: cloudstack.VirtualMachine{PublicIP: "203.0.113.7", NICs: []cloudstack.NIC{
				{DeviceID: 1, Default: true, Type: "Isolated", IPv4: "10.1.1.5", IPv6: "2001:db8::5", PublicIP: "203.0.113.7", SecondaryIP: []string{"10.1.1.99"}},
				{DeviceID: 0, Type: "Shared", IPv4: "198.51.100.5"},
			}},
			want: []string{"InternalIP 10.1.1.5", "InternalIP 2001:db8::5", "ExternalIP 198.51.100.5", "ExternalIP 203.0.113.7", "Hostname n"},
		},
		{
			name: "the default NIC's public address is internal: the kubelet listens on it",
			vm: cloudstack.VirtualMachine{NICs: []cloudstack.NIC{
				{DeviceID: 0, Default: true, Type: "Shared", IPv4: "198.51.100.5", IPv6: "2001:db8::5"},
				{DeviceID: 1, Type: "Isolated", IPv4: "10.1.1.5"},
			}},
			want: []string{"InternalIP 198.51.100.5", "InternalIP 2001:db8::5", "InternalIP 10.1.1.5", "Hostname n"},
		},
		{
			name: "private and shared addresses of further NICs are internal",
			vm: cloudstack.VirtualMachine{NICs: []cloudstack.NIC{
				{Default: true, Type: "Isolated", IPv4: "10.1.1.5"},
				{Type: "Shared", IPv4: "192.168.1.5", IPv6: "fd00::5"}, {Type: "Shared", IPv4: "100.64.1.5"}, {Type: "Isolated", IPv4: "10.2.1.5", IPv6: "2001:db8:2::5"},
			}},
			want: []string{"InternalIP 10.1.1.5", "InternalIP 192.168.1.5", "InternalIP fd00::5", "InternalIP 100.64.1.5", "InternalIP 10.2.1.5", "InternalIP 2001:db8:2::5", "Hostname n"},
		},
		{
			name: "the kubelet's --node-ip is internal",
			vm:   cloudstack.VirtualMachine{NICs: []cloudstack.NIC{{Default: true, Type: "Isolated", IPv4: "10.1.1.5"}, {Type: "Shared", IPv4: "198.51.100.5"}}},
			node: []nodeOption{provided("198.51.100.5")},
			want: []string{"InternalIP 10.1.1.5", "InternalIP 198.51.100.5", "Hostname n"},
		},
		{
			name: "CloudStack's addresses win over the Node's",
			vm:   cloudstack.VirtualMachine{NICs: []cloudstack.NIC{{Default: true, IPv4: "10.1.1.5"}}},
			node: []nodeOption{address(corev1.NodeInternalIP, "10.9.9.9")},
			want: []string{"InternalIP 10.1.1.5", "Hostname n"},
		},
		{
			name: "invalid addresses are omitted",
			vm:   cloudstack.VirtualMachine{PublicIP: "-", NICs: []cloudstack.NIC{{IPv4: "n/a"}, {IPv4: "10.1.1.5"}}},
			want: []string{"InternalIP 10.1.1.5", "Hostname n"},
		},
		{
			name: "with only a static NAT address, the Node keeps its InternalIP",
			vm:   cloudstack.VirtualMachine{PublicIP: "203.0.113.7"},
			node: []nodeOption{address(corev1.NodeInternalIP, "10.9.9.9")},
			want: []string{"ExternalIP 203.0.113.7", "InternalIP 10.9.9.9", "Hostname n"},
		},
		{name: "twenty NICs", vm: cloudstack.VirtualMachine{NICs: many}, want: append(wantMany, "Hostname n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.vm.ID = someID
			assert.Equal(t, c.want, described(t, c.vm, Options{Node: newNode("n", c.node...)}))
		})
	}
}

// described are the addresses of a VM's Node.
func described(t *testing.T, vm cloudstack.VirtualMachine, o Options) []string {
	t.Helper()
	m, err := Metadata(vm, o)
	require.NoError(t, err)
	var out []string
	for _, a := range m.NodeAddresses {
		out = append(out, string(a.Type)+" "+a.Address)
	}
	return out
}

func provided(ips string) nodeOption {
	return annotation(cloudproviderapi.AnnotationAlphaProvidedIPAddr, ips)
}

func annotation(key, value string) nodeOption {
	return func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key] = value
	}
}

// The framework does not initialise a Node whose --node-ip is not in the cloud provider's addresses.
func TestProvidedNodeIPIsAccepted(t *testing.T) {
	t.Parallel()
	m, err := Metadata(cloudstack.VirtualMachine{ID: someID}, Options{Node: newNode("n", provided("192.168.7.7"))})
	require.NoError(t, err)
	_, err = cloudnodeutil.GetNodeAddressesFromNodeIP("192.168.7.7", m.NodeAddresses)
	require.NoError(t, err)
}
