// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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
	m := Metadata(&one, newNode("w1"), Options{})
	assert.Equal(t, "external-cloudstack://"+someID, m.ProviderID)
	assert.Equal(t, "Small_Instance", m.InstanceType)
	assert.Equal(t, "zone-1", m.Zone)
	assert.Equal(t, "zone-1", m.Region)
	assert.Equal(t,
		[]corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.1.1.21"},
			{Type: corev1.NodeHostName, Address: "w1"},
		}, m.NodeAddresses)
	assert.Empty(t, m.AdditionalLabels)

	one.ZoneName = "Zürich (main)"
	m = Metadata(&one, newNode("w1", providerID("k3s://w1")),
		Options{Form: FormClusterAPI, LabelForm: LabelUpstream, Region: "Europe West"})
	assert.Equal(t, "k3s://w1", m.ProviderID, "a provider id that is set stays")
	assert.Equal(t, "SmallInstance", m.InstanceType)
	assert.Equal(t, "Z_rich__main", m.Zone)
	assert.Equal(t, "Europe_West", m.Region)

	m = Metadata(&one, newNode("w1"), Options{Form: FormClusterAPI})
	assert.Equal(t, "cloudstack:///"+someID, m.ProviderID)
}

// described returns the addresses that the Node of a VM gets.
func described(vm cloudstack.VirtualMachine, n *corev1.Node, o Options) (out []string) {
	for _, a := range Metadata(&vm, n, o).NodeAddresses {
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
	m := Metadata(&cloudstack.VirtualMachine{ID: someID}, newNode("n", provided("192.168.7.7")), Options{})
	_, err := cloudnodeutil.GetNodeAddressesFromNodeIP("192.168.7.7", m.NodeAddresses)
	require.NoError(t, err)
}

func TestInstanceTypeLabel(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 62) + " b"

	for _, c := range []struct{ in, keep, upstream string }{
		{"", "", ""},
		{"Small Instance", "Small_Instance", "SmallInstance"},
		{"m1.large", "m1.large", "m1large"},
		{"4 vCPU / 8 GiB", "4_vCPU___8_GiB", "4vCPU8GiB"},
		{"(custom)", "custom", "custom"},
		{"Größe L", "Gr__e_L", "GreL"},
		{"日本", "", ""},
		{"-_.x._-", "x", "x"},
		{long, strings.Repeat("a", 62), strings.Repeat("a", 62) + "b"},
		{"___" + strings.Repeat("b", 70), strings.Repeat("b", 63), strings.Repeat("b", 63)},
	} {
		assert.Equal(t, c.keep, InstanceTypeLabel(LabelKeepSeparators, c.in), c.in)
		assert.Equal(t, c.keep, InstanceTypeLabel("", c.in), c.in)
		assert.Equal(t, c.upstream, InstanceTypeLabel(LabelUpstream, c.in), c.in)
	}
}

func TestParseLabelForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]LabelForm{
		"":                LabelKeepSeparators,
		"keep-separators": LabelKeepSeparators,
		"upstream":        LabelUpstream,
	} {
		got, err := ParseLabelForm(in)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ParseLabelForm("pretty")
	require.ErrorContains(t, err, `"pretty" is not known`)
}

func FuzzLabelValue(f *testing.F) {
	for _, s := range []string{"Small Instance", "ü", "\xff\xfe", "-", strings.Repeat("._-", 40),
		strings.Repeat("é", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{LabelValue(s), InstanceTypeLabel(LabelUpstream, s),
			InstanceTypeLabel(LabelKeepSeparators, s)} {
			if bad := validation.IsValidLabelValue(got); len(bad) > 0 {
				t.Fatalf("%q became %q: %v", s, got, bad)
			}
		}
		if valid := len(validation.IsValidLabelValue(s)) == 0; valid && LabelValue(s) != s {
			t.Fatalf("the valid value %q became %q", s, LabelValue(s))
		}
	})
}

func TestExtraLabels(t *testing.T) {
	t.Parallel()
	vm := cloudstack.VirtualMachine{
		ID: someID, ServiceOfferingID: "so-1", Hypervisor: "KVM", HostID: "h-1", HostName: "kvm 1.example",
		AffinityGroups: []cloudstack.AffinityGroup{{ID: "ag-1", Name: "db nodes"}, {ID: "ag-2", Name: "ä"}},
		Tags: map[string]string{
			"k8s:team":  "Über uns",
			"k8s:empty": "",
			"k8s:":      "x",
			"other":     "y",
			"k8s:a b":   "2",
			"k8s:a_b":   "1",
			"k8s:-":     "z",
		},
	}

	for _, c := range []struct {
		words  []string
		prefix string
		want   map[string]string
	}{
		{},
		{
			words: []string{"offering", " hypervisor "},
			want:  map[string]string{LabelOfferingID: "so-1", LabelHypervisor: "KVM"},
		},
		{words: []string{"host", ""}, want: map[string]string{LabelHostID: "h-1", LabelHostName: "kvm_1.example"}},
		{words: []string{"affinity-groups"}, want: map[string]string{LabelAffinityPrefix + "db_nodes": "ag-1"}},
		{
			prefix: "k8s:",
			want: map[string]string{
				LabelTagPrefix + "team":  "ber_uns",
				LabelTagPrefix + "empty": "",
				LabelTagPrefix + "a_b":   "1",
			},
		},
	} {
		l, err := ParseExtraLabels(c.words, c.prefix)
		require.NoError(t, err)
		assert.Equal(t, c.want, l.Of(&vm))
	}

	all, err := ParseExtraLabels(ExtraLabelWords(), "k8s:")
	require.NoError(t, err)
	assert.Nil(t, all.Of(&cloudstack.VirtualMachine{ID: someID}), "fields that a user cannot see are omitted")
	_, err = ParseExtraLabels([]string{"rack"}, "")
	require.ErrorContains(t, err, `"rack" is not known: use offering, hypervisor, host, affinity-groups`)
}

func FuzzExtraLabels(f *testing.F) {
	f.Add("k8s:team", "a team", "group 1", "kvm-1")
	f.Add("k8s:"+strings.Repeat("x", 300), strings.Repeat("-", 70), "é", "")
	f.Fuzz(func(t *testing.T, key, value, group, host string) {
		vm := cloudstack.VirtualMachine{
			ID: someID, ServiceOfferingID: value, Hypervisor: value, HostID: host, HostName: host,
			AffinityGroups: []cloudstack.AffinityGroup{{ID: value, Name: group}}, Tags: map[string]string{key: value},
		}
		l := ExtraLabels{Offering: true, Hypervisor: true, Host: true, AffinityGroups: true, TagPrefix: "k8s:"}
		for k, v := range l.Of(&vm) {
			require.Empty(t, validation.IsQualifiedName(k), k)
			require.Empty(t, validation.IsValidLabelValue(v), v)
		}
	})
}
