// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
)

// What Nodes cost, counted by the server, for clusters of all sizes: calls go by the VMs of the account and
// by time, never by the number of Nodes.
func TestNodeBudgets(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 100, 1000, 5000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			if size > 1000 && testing.Short() {
				t.Skip("takes seconds")
			}
			s := newSim(t, size)
			clock, o := fakeClockOptions()
			p, err := New(s.config(testAPIKey, testSecret), o, cloudstack.WithJitter(func(time.Duration) time.Duration { return time.Millisecond }))
			require.NoError(t, err)
			t.Cleanup(p.client.CloseIdleConnections)
			nodes := s.nodes(size)
			p.instances.nodes = func() ([]*corev1.Node, error) { return nodes, nil }
			pages := (size + 499) / 500
			spent := func() int { n := len(s.calls("ccm")); s.Ledger().Reset(); return n }
			describeAll := func(list []*corev1.Node) {
				t.Helper()
				var wg sync.WaitGroup
				for w := range 16 {
					wg.Go(func() {
						for i := w; i < len(list); i += 16 {
							if _, err := p.instances.InstanceMetadata(t.Context(), list[i]); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
			}

			fresh := make([]*corev1.Node, size)
			for i := range fresh {
				fresh[i] = k8sNode(nodes[i].Name, "")
			}
			describeAll(fresh)
			assert.Equal(t, pages, spent(), "all Nodes at once share a flight")
			describeAll(nodes)
			assert.Zero(t, spent(), "a list serves all for its age")
			_, err = p.inventory.VMs(t.Context(), vmAge)
			require.NoError(t, err)
			assert.Zero(t, spent(), "load balancers among them")
			clock.Step(vmAge + time.Second)
			describeAll(nodes)
			assert.Equal(t, pages, spent(), "a steady round")

			s.do("stopVirtualMachine", s.ids["w2"])
			require.Eventually(t, func() bool {
				vm, found, err := p.inventory.VM(t.Context(), s.ids["w2"])
				return err == nil && found && vm.State == cloudstack.VMStopped
			}, waitLong, 10*time.Millisecond)
			spent()
			clock.Step(vmAge + time.Second)
			exists, err := p.instances.InstanceExists(t.Context(), nodes[1])
			require.NoError(t, err)
			assert.True(t, exists)
			off, err := p.instances.InstanceShutdown(t.Context(), nodes[1])
			require.NoError(t, err)
			assert.True(t, off)
			assert.Equal(t, pages, spent(), "one VM stopped")

			s.do("destroyVirtualMachine", s.ids["w3"])
			require.Eventually(t, func() bool {
				_, found, err := p.inventory.VM(t.Context(), s.ids["w3"])
				return err == nil && !found
			}, waitLong, 10*time.Millisecond)
			spent()
			clock.Step(vmAge + time.Second)
			exists, err = p.instances.InstanceExists(t.Context(), nodes[2])
			require.NoError(t, err)
			assert.False(t, exists)
			assert.Equal(t, pages+1, spent(), "one VM destroyed: the list and the look-up by id")

			nobody := k8sNode("nobody", node.ProviderID(node.FormUpstream, vmID(1)))
			clock.Step(missAge + time.Second)
			_, err = p.instances.InstanceMetadata(t.Context(), nobody)
			require.Error(t, err)
			assert.Equal(t, 1, spent(), "an unknown id: one look-up, or the list where that is one call as well")
		})
	}
}
