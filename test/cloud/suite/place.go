// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// The places that a cluster can be in.
const (
	isolated = "isolated network"
	vpc      = "VPC tier"
	project  = "project"
)

// place is a cluster whose nodes are VMs in one kind of network.
type place struct {
	*Run
	kind    string
	cluster *testenv.Cluster
	home    string
	nodes   map[string]*processnode.Node

	vms                    []world.VM
	networkID, networkName string
	projectID, project     string
	vpcID, aclID           string // aclID is the tier's ACL list
	installed              bool
	installedBy            string
}

// nodesOfPlace is how many VMs a cluster starts with.
const nodesOfPlace = 3

// nodeGrace is how long a node may miss its heartbeats on a busy machine.
const nodeGrace = 25 * time.Second

// at returns a place, which is made when it is first asked for.
func (r *Run) at(ctx context.Context, kind string) *place {
	p := r.places[kind]
	if p == nil {
		p = &place{Run: r, kind: kind, nodes: map[string]*processnode.Node{}}
		r.places[kind] = p
		begun := time.Now()
		if err := must.Catch(func() { p.make(ctx) }); err != nil {
			must.Fail("make a cluster (%s): %w", kind, err)
		}
		r.Say("a cluster of %d nodes is ready: %s (%s)", len(p.vms), kind, time.Since(begun).Round(time.Second))
	}
	must.Be(p.cluster != nil, "the %s could not be made; see the first scenario there", kind)
	return p
}

// only stops the clusters of all other places.
func (r *Run) only(kind string) {
	for k, p := range r.places {
		if k != kind {
			p.stop()
			delete(r.places, k)
		}
	}
}

func (p *place) make(ctx context.Context) {
	p.makeNetwork(ctx)
	p.home = must.Get(os.MkdirTemp(p.dir, "home-"))
	cluster := must.Get(testenv.StartCluster(ctx, testenv.ClusterOptions{
		Plane: plane.Options{Binary: p.Plane, Dir: p.dir, NodeGrace: nodeGrace}, Controller: p.Programs.Controller,
	}))
	if err := must.Catch(func() { p.join(ctx, cluster, p.vms...) }); err != nil {
		cluster.Stop()
		must.OK(err)
	}
	p.cluster = cluster
}

// join starts the nodes of VMs.
func (p *place) join(ctx context.Context, cluster *testenv.Cluster, vms ...world.VM) {
	for _, vm := range vms {
		p.nodes[vm.Name] = must.Get(cluster.Join(ctx, processnode.Options{Name: vm.Name, Address: vm.Address, Dir: p.dir}))
	}
}

// makeNetwork makes the network and the VMs.
func (p *place) makeNetwork(ctx context.Context) {
	w, short := p.world, map[string]string{isolated: "iso", vpc: "vpc", project: "prj"}[p.kind]
	switch p.kind {
	case vpc: // with a tier, which has an ACL list of its own
		p.vpcID = w.New(ctx, "createVPC", short, world.Params{"zoneid": w.Offers.ZoneID, "vpcofferingid": w.Offers.VPC, "cidr": "10.64.0.0/16"})
		p.aclID = w.ACLList(ctx, short+"-acl", p.vpcID)
		p.networkName = short + "-tier"
		p.networkID = w.Tier(ctx, p.networkName, p.vpcID, p.aclID, w.Offers.Tier, 1)
	case project:
		p.project, p.projectID = w.Name(short), w.New(ctx, "createProject", short, world.Params{})
		fallthrough
	default:
		p.networkName = short + "-net"
		p.networkID = w.Network(ctx, p.networkName, w.Offers.Isolated, world.Params{}.Set("projectid", p.projectID))
	}
	p.networkName = w.Name(p.networkName)
	var names []string
	for i := range nodesOfPlace {
		names = append(names, fmt.Sprintf("%s-n%d", short, i+1))
	}
	p.vms = w.VMs(ctx, p.projectID, p.networkID, names...)
}

// names are those of the nodes, sorted.
func (p *place) names() []string {
	var all []string
	for _, vm := range p.vms {
		all = append(all, vm.Name)
	}
	slices.Sort(all)
	return all
}

func (p *place) stop() {
	if p.cluster != nil {
		p.cluster.Stop()
	}
}
