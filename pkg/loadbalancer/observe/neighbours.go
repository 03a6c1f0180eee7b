// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"slices"
	"strings"

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

// holders finds out which Service of the cluster has an address and its rules, and whether the task's Service may join
// them.
func (r *reading) holders(ctx context.Context, a *plan.Address, tags map[string]string, rules map[string]map[string]string) error {
	unguarded := r.unguarded(plan.GuardSharing)
	for i := range a.Rules {
		rule := &a.Rules[i]
		if rule.Owner == plan.Owned {
			continue
		}
		others, err := r.Neighbours(ctx)
		if err != nil {
			return err
		}
		if n := others.ofRule(rule.Name, r.options.ClusterName, rules[rule.ID]); n != nil {
			rule.Near = n.Namespace == r.Service.Namespace
			rule.Service, rule.Admits = n.Namespace+"/"+n.Name, unguarded || n.admits(r.Service.Namespace)
		}
	}
	uid, kept := tags[plan.TagServiceUID], tags[plan.TagKeptBy]
	switch {
	case a.ForeignCluster || uid == r.Service.UID:
	case kept != "":
		namespace, _, _ := strings.Cut(kept, "/")
		a.Holder, a.Kept, a.Admits = kept, true, namespace == r.Service.Namespace || r.unguarded(plan.GuardKept)
	case uid != "":
		others, err := r.Neighbours(ctx)
		if err != nil {
			return err
		}
		n := others.byUID[uid]
		if n == nil { // gone: its namespace is what the tag says
			namespace, name, _ := strings.Cut(tags[plan.TagService], "/")
			n = &Neighbour{UID: uid, Namespace: namespace, Name: name}
		}
		a.Holder, a.Admits = n.Namespace+"/"+n.Name, unguarded || n.admits(r.Service.Namespace)
	}
	return nil
}
