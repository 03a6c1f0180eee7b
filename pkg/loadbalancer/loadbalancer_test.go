// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/lru"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

func TestMemberLists(t *testing.T) {
	t.Parallel()
	p := &Reconciler{members: lru.New(16)}
	same := func(a, b []string) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }
	first := p.oneCopy([]string{"a", "b"})
	require.True(t, same(first, p.oneCopy([]string{"a", "b"})), "one copy")
	require.Empty(t, p.oneCopy(nil))
	longer := append(p.oneCopy([]string{"a", "b"}), "c")
	require.False(t, same(first, longer), "what others share is not appended to")
	require.Equal(t, []string{"a", "b"}, first)
	for i := range 16 {
		p.oneCopy([]string{strconv.Itoa(i)})
	}
	require.False(t, same(first, p.oneCopy([]string{"a", "b"})), "only the recent ones are kept")
}

// While another address is released, a sync must not restart the wait for a rule in state Deleting.
func TestReleaseDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	actual := plan.Actual{
		Addresses: []plan.Address{
			{ID: "1"},
			{ID: "2", Rules: []plan.Item{{Rule: access.Rule{Deleting: true}}}},
			{ID: "3"},
		},
	}
	var steps []plan.Step
	for _, a := range actual.Addresses {
		steps = append(steps, plan.Step{Kind: plan.ReleaseAddress, On: plan.On{AddressID: a.ID}})
	}
	m, now := apply.Memory{}, time.Now()
	require.Error(t, m.DeletionsRunning(steps, actual, now))
	require.Error(t, m.DeletionsRunning(steps, actual, now.Add(20*time.Second)))
	require.NoError(t, m.DeletionsRunning(steps, actual, now.Add(31*time.Second)))
}

// The network's services show what filters sources: a VPC may have a firewall (CloudStack 4.23), and not every provider
// is known to enforce the source ranges of a rule.
func TestSourceRangesNeedAFilter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		vpc, balances, firewall string
		sources                 string
		refused, alone          bool // alone means that only the rule filters
	}{
		"VPC":                             {"vpc", "VpcVirtualRouter", "", "10.0.0.0/8", false, true},
		"VPC with a firewall":             {"vpc", "VpcVirtualRouter", "VpcVirtualRouter", "10.0.0.0/8", false, false},
		"NSX with its firewall":           {"", "Nsx", "Nsx", "10.0.0.0/8", false, false},
		"NSX in a VPC":                    {"vpc", "Nsx", "", "10.0.0.0/8", true, false},
		"NSX in a VPC, everybody":         {"vpc", "Nsx", "", annotation.Anyone, false, true},
		"beside the firewall of a router": {"", "Netscaler", "VirtualRouter", "10.0.0.0/8", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := &cloudstack.Network{VPCID: tc.vpc, Services: map[string]map[string]string{"Lb": nil}}
			network.ServiceProviders = map[string][]string{"Lb": {tc.balances}, "Firewall": {tc.firewall}}
			if tc.firewall != "" {
				network.Services["Firewall"] = nil
			}

			n := NetworkOf(network)
			facts := plan.Facts{Service: plan.Service{Ports: []plan.Port{{Port: 80, NodePort: 30080}}}, Network: &n}
			facts.Spec.SourceRanges = []string{tc.sources}
			d, refusal := plan.Desire(facts)
			require.Equal(t, tc.refused, refusal != nil)
			require.Equal(t, tc.alone, d.CIDRsDecide)
		})
	}
}
