// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/simulator"
)

// A page has 500 VMs.
func TestFlaw12MoreThanAPageOfVMs(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withWorld(func(w string) string {
		var more strings.Builder
		more.WriteString("virtualMachines:\n")
		for i := range 501 {
			fmt.Fprintf(&more, "  - {name: a%d, account: k8s, nics: [{network: k8s-net, ip: 10.1.%d.%d}]}\n", i, 8+i/200, 20+i%200)
		}
		return strings.Replace(strings.Replace(w, "10.1.1.0/24", "10.1.0.0/16", 1), "virtualMachines:\n", more.String(), 1)
	}))
	env.create("web", []int{80})
	env.mustSync("web", "w5", "a0", "a500")
	assert.Contains(t, grep(env.dump(), webLB)[0], "[a0 a500 w5]")
}

func TestFlaw15NodeNamedByItsFQDN(t *testing.T) {
	t.Parallel()
	// Its Node is initialised ...
	cloud := newNodeEnv(t, 1)
	nodes := uninitialised(1)
	nodes[0].Name = "W1.example.org"
	c := startCluster(t, cloud.provider(nil), nodes...)
	c.initialised("W1.example.org")
	// ... and it serves.
	env := newEnv(t)
	env.create("web", []int{80})
	env.mustSync("web", "W1.example.org", "w2")
	assert.Contains(t, grep(env.dump(), webLB)[0], "[w1 w2]")
}

func TestFlaw23VMsOfOtherZones(t *testing.T) {
	t.Parallel()
	world := withWorld(func(w string) string {
		w = strings.Replace(w, "accounts:\n", "  - {name: zone-2, publicRanges: [198.51.100.10-198.51.100.20], hosts: [h2]}\naccounts:\n", 1)
		w = strings.Replace(w, "networks:\n", "networks:\n  - {name: far-net, zone: zone-2, account: k8s, cidr: 10.9.1.0/24}\n", 1)
		return strings.Replace(w, "virtualMachines:\n", "virtualMachines:\n  - {name: w5, zone: zone-2, account: k8s, nics: [{network: far-net, ip: 10.9.1.25}]}\n", 1)
	})
	env := newEnv(t, world)
	env.deps = func(d *loadBalancerDeps) {
		d.Inventory = inventory.New(env.client(testAPIKey, testSecret), inventory.Options{Zone: "zone-1", Clock: env.clock})
	}
	env.restart()
	env.create("web", []int{80})
	env.mustSync("web", "w5", "w2")
	rules := env.rulesAt(env.ip("web"))
	members := env.membersOf(rules[0].ID)
	var addresses []string
	for i := range members {
		addresses = append(addresses, members[i].Addresses...)
	}
	assert.ElementsMatch(t, []string{"10.1.1.25", "10.1.1.22"}, addresses)

	// Zone and region are asked for from many goroutines; the race detector looks on.
	cloud := newNodeEnv(t, 3)
	p := cloud.provider(func(cfg *cloudstack.Config) { cfg.Zone, cfg.Region = "zone-1", "north" })
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			m, err := p.instances.InstanceMetadata(t.Context(), k8sNode("w2", ""))
			if assert.NoError(t, err) {
				assert.Equal(t, "zone-1 north", m.Zone+" "+m.Region)
			}
		})
	}
	group.Wait()
}

// Nothing is decided by the server's version, which upstream reads by an administrator's call and takes apart.
func TestFlaw24NoVersionIsRead(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 1)
	for _, command := range []string{"listManagementServersMetrics", "listCapabilities"} {
		env.Inject(simulator.Fault{Command: command, Kind: simulator.FaultErrorBefore, HTTPStatus: 432})
	}
	c := startCluster(t, env.provider(nil), uninitialised(1)...)
	c.initialised("w1")
	for _, call := range env.Calls("ccm") {
		assert.NotContains(t, []string{"listManagementServersMetrics", "listCapabilities"}, call)
	}
}
