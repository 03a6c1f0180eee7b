// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestExtraLabels(t *testing.T) {
	t.Parallel()
	vm := cloudstack.VirtualMachine{
		ID: someID, ServiceOfferingID: "so-1", Hypervisor: "KVM", HostID: "h-1", HostName: "kvm 1.example",
		AffinityGroups: []cloudstack.AffinityGroup{{ID: "ag-1", Name: "db nodes"}, {ID: "ag-2", Name: "ä"}},
		Tags:           map[string]string{"k8s:team": "Über uns", "k8s:empty": "", "k8s:": "x", "other": "y", "k8s:a b": "2", "k8s:a_b": "1", "k8s:-": "z"},
	}
	for _, c := range []struct {
		words  []string
		prefix string
		want   map[string]string
	}{
		{},
		{words: []string{"offering", " hypervisor "}, want: map[string]string{LabelOfferingID: "so-1", LabelHypervisor: "KVM"}},
		{words: []string{"host", ""}, want: map[string]string{LabelHostID: "h-1", LabelHostName: "kvm_1.example"}},
		{words: []string{"affinity-groups"}, want: map[string]string{LabelAffinityPrefix + "db_nodes": "ag-1"}},
		{prefix: "k8s:", want: map[string]string{LabelTagPrefix + "team": "ber_uns", LabelTagPrefix + "empty": "", LabelTagPrefix + "a_b": "1"}},
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
