// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Neighbour is another Service of type LoadBalancer in the cluster.
type Neighbour struct {
	UID, Namespace, Name string
	// ShareWith are the namespaces whose Services may use its address besides its own; "*" is all of them.
	ShareWith []string
	// Addresses are those of its status.
	Addresses []string
}

// admits reports whether a Service of a namespace may use the neighbour's address.
func (n *Neighbour) admits(namespace string) bool {
	return n.Namespace == namespace || slices.Contains(n.ShareWith, namespace) || slices.Contains(n.ShareWith, "*")
}

// Neighbours finds the Services behind tags and names of rules.
type Neighbours struct {
	List               []Neighbour
	byUID, byLB, byKey map[string]*Neighbour
}

// IndexNeighbours makes Neighbours of a list.
func IndexNeighbours(list []Neighbour) *Neighbours {
	out := &Neighbours{List: list, byUID: map[string]*Neighbour{}, byLB: map[string]*Neighbour{}, byKey: map[string]*Neighbour{}}
	for i := range list {
		n := &list[i]
		out.byUID[n.UID], out.byLB[plan.LBName(n.UID)], out.byKey[n.Namespace+"/"+n.Name] = n, n, n
	}
	return out
}

// ofRule returns the Service of a rule by its tags, or by its name where it has none; nil when the cluster has no such
// Service.
func (n *Neighbours) ofRule(name, clusterName string, tags map[string]string) *Neighbour {
	if uid := tags[plan.TagServiceUID]; uid != "" {
		return n.byUID[uid]
	}
	if lb, _, _, _, ok := plan.ParseRuleName(name); ok {
		return n.byLB[lb]
	}
	if cluster, namespace, service, ok := plan.ParseLeasewebName(name); ok && cluster == clusterName {
		return n.byKey[namespace+"/"+service]
	}
	return nil
}
