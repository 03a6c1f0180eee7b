// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// label sets a label of a Node, as kubectl does; an empty value removes it.
func (b *bubble) label(node, name, value string) {
	b.t.Helper()
	n, err := b.kube.CoreV1().Nodes().Get(b.t.Context(), node, metav1.GetOptions{})
	require.NoError(b.t, err)
	n = n.DeepCopy()
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[name] = value
	if value == "" {
		delete(n.Labels, name)
	}
	_, err = b.kube.CoreV1().Nodes().Update(b.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(b.t, err)
}

// inspector reads from CloudStack as another user of the account.
func (b *bubble) inspector() *cloudstack.Client {
	b.t.Helper()
	cfg := cloudstack.DefaultConfig()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey, cfg.RateLimit = "http://cloudstack.test/client/api", "inspect", "inspect", 0
	c, err := cloudstack.NewClient(&cfg, cloudstack.WithTransport(inMemory{b.sim.Handler()}))
	require.NoError(b.t, err)
	return c
}

// members are the names of the VMs behind the rules of a Service.
func (b *bubble) members(namespace, name string) []string {
	b.t.Helper()
	synctest.Wait()
	svc, c := b.get(namespace, name), b.inspector()
	require.NotEmpty(b.t, svc.Status.LoadBalancer.Ingress)
	vms, err := c.ListVirtualMachines(b.t.Context(), cloudstack.VMQuery{})
	require.NoError(b.t, err)
	rules, err := c.ListLoadBalancerRules(b.t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(b.t, err)
	out := []string{}
	for i := range rules {
		if rules[i].PublicIP != svc.Status.LoadBalancer.Ingress[0].IP {
			continue
		}
		list, err := c.ListLoadBalancerMembers(b.t.Context(), rules[i].ID)
		require.NoError(b.t, err)
		for _, m := range list {
			at := slices.IndexFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.ID == m.VMID })
			require.GreaterOrEqual(b.t, at, 0)
			out = append(out, vms[at].Name)
		}
	}
	slices.Sort(out)
	return out
}

// A node selector follows the labels of the nodes at once, although nothing changes of which the framework tells.
func TestNodeSelectorFollowsLabels(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		const soon = 5 * time.Second
		b.label("w1", "tier", "web")
		synctest.Wait() // the informer has it
		b.service("default", "web", annotate(annotation.NodeSelector, "tier=web"))
		b.service("default", "all")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"w1"}, b.members("default", "web"))
		assert.Equal(t, []string{"w1", "w2"}, b.members("default", "all"))

		b.label("w2", "tier", "web")
		time.Sleep(soon)
		assert.Equal(t, []string{"w1", "w2"}, b.members("default", "web"))
		b.label("w1", "tier", "")
		time.Sleep(soon)
		assert.Equal(t, []string{"w2"}, b.members("default", "web"))
		b.label("w2", "tier", "db")
		time.Sleep(soon)
		assert.Empty(t, b.members("default", "web"))
		b.label("w1", "tier", "web")
		time.Sleep(soon)
		assert.Equal(t, []string{"w1"}, b.members("default", "web"))
		assert.Equal(t, []string{"w1", "w2"}, b.members("default", "all"))

		b.count()
		b.label("w2", "color", "blue")
		time.Sleep(time.Minute)
		calls, _ := b.count()
		assert.Empty(t, calls, "a label that no selector names changes nothing")
	})
}

// A Service that waits because of its nodes is tried again when a label changes what its selector matches.
func TestNodeSelectorEndsAWait(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		n := k8sNode("stranger", "") // no VM has that name
		n.Labels = map[string]string{"tier": "web"}
		_, err := b.kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait() // the informer has it
		b.service("default", "web", annotate(annotation.NodeSelector, "tier=web"))
		time.Sleep(30 * time.Minute)
		assert.False(t, b.served("default", "web"))
		b.label("w1", "tier", "web")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"w1"}, b.members("default", "web"))
	})
}

// A drift round goes by the labels that the nodes have now, whatever happened to the informer's events.
func TestDriftRoundSeesLabels(t *testing.T) {
	t.Parallel()
	labelled := map[string]string{}
	b := newBed(t, func(b *bed, _ *string) {
		b.options = func(d *loadBalancerDeps) {
			d.Nodes = func() ([]*corev1.Node, error) {
				nodes := nodesNamed("w1", "w2")
				for _, n := range nodes {
					n.Labels = map[string]string{"tier": labelled[n.Name]}
				}
				return nodes, nil
			}
		}
	})
	b.service([]int{80}, annotate(annotation.NodeSelector, "tier=web"))
	b.mustSync("w1", "w2")
	ip := b.getAs("web").Status.LoadBalancer.Ingress[0].IP
	for _, name := range []string{"w1", "w2"} {
		clear(labelled)
		labelled[name] = "web"
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.lb.driftRound(t.Context())
		assert.Contains(t, of(b.dump(), ip), "rule a7c3e1b5200004000800000000000abc-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] ["+name+"]")
	}
}
