// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// A NIC that was added to a running VM counts at the next try, whatever the age of the list of VMs: a refusal is based on
// a fresh read.
func TestRefusalRestsOnAFreshRead(t *testing.T) {
	t.Parallel()
	parallel(t, "nodes in several networks", func(t *testing.T) {
		env := newEnv(t)
		env.create("web", []int{80})
		require.ErrorContains(t, env.sync("web", "w1", "s1"), "k8s-net (w1); second-net (s1)")
		env.Admin("addNicToVirtualMachine", "virtualmachineid", env.vm("s1"), "networkid", env.net("k8s-net").ID)
		env.advance(time.Minute)
		env.mustSync("web", "w1", "s1")
		assert.Contains(t, of(env.dump(), env.ip("web"))[2], "[s1 w1]")
	})
	parallel(t, "a network without nodes", func(t *testing.T) {
		env := newEnv(t)
		env.create("web", []int{80}, annotate(annotation.Network, "second-net"))
		require.ErrorContains(t, env.sync("web", "w1"), `no node has a NIC in network "second-net"`)
		env.Admin("addNicToVirtualMachine", "virtualmachineid", env.vm("w1"), "networkid", env.net("second-net").ID)
		env.advance(time.Minute)
		env.mustSync("web", "w1")
		assert.Contains(t, of(env.dump(), env.ip("web"))[2], "[w1]")
	})
	parallel(t, "a node outside the network", func(t *testing.T) {
		env := served(t, []int{80}, by("w1"))
		env.update("web", "w1", "s1")
		assert.Contains(t, env.event(plan.ReasonNodeOutside), "s1")
		env.Admin("addNicToVirtualMachine", "virtualmachineid", env.vm("s1"), "networkid", env.net("k8s-net").ID)
		env.round(5 * time.Minute)
		assert.Contains(t, of(env.dump(), env.ip("web"))[2], "[s1 w1]")
	})
	parallel(t, "many at once share the read", func(t *testing.T) {
		env := newEnv(t)
		env.createMany(5, []int{80})
		require.Error(t, env.sync("web0", "w1", "s1"))
		env.advance(time.Minute)
		env.reset()
		for i := range 5 {
			require.Error(t, env.sync(fmt.Sprintf("web%d", i), "w1", "s1"))
		}
		assert.Equal(t, 1, count(env.calls(), "listVirtualMachines"))
	})
}

// A tier whose network ACL list is replaced gets the Services' items in the new list, and loses them in the old one,
// within a drift round, which reads the tier once.
func TestReplacedACLListIsSeenInADriftRound(t *testing.T) {
	t.Parallel()
	for _, services := range []int{1, 3} {
		parallel(t, fmt.Sprintf("%d Services", services), func(t *testing.T) {
			env := newEnv(t, withVPC)
			env.serveMany(services, []int{80}, "v1")
			tier := env.net("tier")
			ours := func() []string { return grep(env.dump(), "(csccm test ") }
			require.Len(t, ours(), services)
			list := env.Admin("createNetworkACLList", "name", "acl-2", "vpcid", tier.VPCID)
			env.Admin("replaceNetworkACLList", "networkid", tier.ID, "aclid", fmt.Sprint(list["id"]))
			env.advance(5 * time.Minute)
			env.reset()
			env.round(0)
			assert.LessOrEqual(t, count(env.calls(), "listNetworks"), 1)
			assert.Len(t, ours(), services)
			for _, item := range ours() {
				assert.Contains(t, item, "acl acl-2 ")
			}

			env.Admin("replaceNetworkACLList", "networkid", tier.ID, "aclid", env.net("denied").ACLID)
			env.advance(5 * time.Minute)
			env.events()
			env.round(0)
			assert.Empty(t, ours(), "items of a list that is used no longer go")
			assert.Contains(t, env.event(plan.ReasonDefaultACL), "list of its own")
		})
	}
}

// A node selector follows the labels of the nodes at once, although the framework reports no change.
func TestNodeSelectorFollowsLabels(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		const soon = 5 * time.Second
		env.label("w1", "tier", "web")
		synctest.Wait() // the informer has it
		env.create("web", []int{80}, annotate(annotation.NodeSelector, "tier=web"))
		env.create("all", []int{80})
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"w1"}, env.members("web"))
		assert.Equal(t, []string{"w1", "w2"}, env.members("all"))

		env.label("w2", "tier", "web")
		time.Sleep(soon)
		assert.Equal(t, []string{"w1", "w2"}, env.members("web"))
		env.label("w1", "tier", "")
		time.Sleep(soon)
		assert.Equal(t, []string{"w2"}, env.members("web"))
		env.label("w2", "tier", "db")
		time.Sleep(soon)
		assert.Empty(t, env.members("web"))
		env.label("w1", "tier", "web")
		time.Sleep(soon)
		assert.Equal(t, []string{"w1"}, env.members("web"))
		assert.Equal(t, []string{"w1", "w2"}, env.members("all"))

		env.count()
		env.label("w2", "color", "blue")
		time.Sleep(time.Minute)
		calls, _ := env.count()
		assert.Empty(t, calls, "a label that no selector names changes nothing")
	})
}

// A Service that waits because of its nodes is tried again when a label changes what its selector matches.
func TestNodeSelectorEndsAWait(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		n := k8sNode("stranger", "") // no VM has that name
		n.Labels = map[string]string{"tier": "web"}
		_, err := env.kube.CoreV1().Nodes().Create(env.t.Context(), n, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait() // the informer has it
		env.create("web", []int{80}, annotate(annotation.NodeSelector, "tier=web"))
		time.Sleep(30 * time.Minute)
		assert.False(t, env.served("web"))
		env.label("w1", "tier", "web")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"w1"}, env.members("web"))
	})
}

// A drift round uses the current labels of the nodes, also if events of the informer were lost.
func TestDriftRoundSeesLabels(t *testing.T) {
	t.Parallel()
	labelled := map[string]string{}
	env := newEnv(t, withDeps(func(d *service.Deps) {
		d.Nodes = func() ([]*corev1.Node, error) {
			nodes := nodesNamed("w1", "w2")
			for _, n := range nodes {
				n.Labels = map[string]string{"tier": labelled[n.Name]}
			}
			return nodes, nil
		}
	}))
	env.create("web", []int{80}, annotate(annotation.NodeSelector, "tier=web"))
	env.mustSync("web")
	ip := env.get("web").Status.LoadBalancer.Ingress[0].IP
	for _, name := range []string{"w1", "w2"} {
		clear(labelled)
		labelled[name] = "web"
		env.round(5 * time.Minute)
		assert.Contains(t, of(env.dump(), ip), "rule a7c3e1b5200004000800000000000abc-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] ["+name+"]")
	}
}
