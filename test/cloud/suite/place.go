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

	network            world.Network
	vms                []world.VM
	projectID, project string
	vpcID              string
	installed          bool
	installedBy        string
}

// nodesOfPlace is how many VMs a cluster starts with.
const nodesOfPlace = 3

// nodeGrace is how long a node may miss its heartbeats on a busy machine.
const nodeGrace = 25 * time.Second

// at returns a place, which is made when it is first asked for.
func (r *Run) at(ctx context.Context, kind string) (*place, error) {
	if p, ok := r.places[kind]; ok {
		if p.cluster == nil {
			return nil, fmt.Errorf("the %s could not be made; see the first scenario there", kind)
		}
		return p, nil
	}
	p := &place{Run: r, kind: kind, nodes: map[string]*processnode.Node{}}
	r.places[kind] = p
	begun := time.Now()
	if err := p.make(ctx); err != nil {
		return nil, fmt.Errorf("make a cluster (%s): %w", kind, err)
	}
	r.Say("a cluster of %d nodes is ready: %s (%s)", len(p.vms), kind, time.Since(begun).Round(time.Second))
	return p, nil
}

// only stops the clusters of all other places.
func (r *Run) only(kind string) {
	for k, p := range r.places {
		if k != kind && p.cluster != nil && kind != "" {
			p.stop()
			delete(r.places, k)
		}
	}
}

func (p *place) make(ctx context.Context) error {
	return must.Catch(func() {
		must.OK(p.makeNetwork(ctx))
		p.home = must.Get(os.MkdirTemp(p.dir, "home-"))
		cluster := must.Get(testenv.StartCluster(ctx, testenv.ClusterOptions{
			Plane: plane.Options{Binary: p.Plane, Dir: p.dir, NodeGrace: nodeGrace}, Controller: p.Programs.Controller,
		}))
		for _, vm := range p.vms {
			if err := p.joinTo(ctx, cluster, vm); err != nil {
				cluster.Stop()
				must.OK(err)
			}
		}
		p.cluster = cluster
	})
}

// joinTo starts the node of a VM.
func (p *place) joinTo(ctx context.Context, cluster *testenv.Cluster, vm world.VM) error {
	n, err := cluster.Join(ctx, processnode.Options{Name: vm.Name, Address: vm.Address, Dir: p.dir})
	p.nodes[vm.Name] = n
	return err
}

// makeNetwork makes the network and the VMs.
func (p *place) makeNetwork(ctx context.Context) error {
	return must.Catch(func() {
		short := map[string]string{isolated: "iso", vpc: "vpc", project: "prj"}[p.kind]
		switch p.kind {
		case vpc: // with a tier, which has an ACL list of its own
			p.vpcID = must.Get(p.world.VPC(ctx, short))
			acl := must.Get(p.world.ACLList(ctx, short+"-acl", p.vpcID))
			p.network = must.Get(p.world.Tier(ctx, short+"-tier", p.vpcID, acl, p.world.Offers.Tier, 1))
		case project:
			p.project, p.projectID = p.world.Name(short), must.Get(p.world.Project(ctx, short))
			fallthrough
		default:
			p.network = must.Get(p.world.Isolated(ctx, short+"-net", p.projectID))
		}
		var names []string
		for i := range nodesOfPlace {
			names = append(names, fmt.Sprintf("%s-n%d", short, i+1))
		}
		p.vms = must.Get(p.world.VMs(ctx, p.projectID, p.network.ID, names...))
	})
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

// cannotError is the reason why a scenario cannot be done on this cloud.
type cannotError struct{ reason string }

func (e *cannotError) Error() string { return e.reason }

// cannot says why a scenario cannot be done here.
func cannot(format string, a ...any) error { return &cannotError{fmt.Sprintf(format, a...)} }
