// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// Grants are what the operator's policy allows the Service to use beyond the addresses of its own namespace.
type Grants struct {
	// SourceNAT is the source NAT address of an isolated network.
	SourceNAT bool
	// ForeignAddress is an address that carries rules or port forwardings which no Service of the cluster made.
	ForeignAddress bool
	// MaxAddresses and MaxKept limit the addresses that Services of the namespace have, and those kept for it when
	// Services went; negative for no limit.
	MaxAddresses, MaxKept int
}

// AllGrants has everything and no limit.
func AllGrants() Grants {
	return Grants{SourceNAT: true, ForeignAddress: true, MaxAddresses: -1, MaxKept: -1}
}

// neighbours finds the Services behind tags and names of rules.
type neighbours struct {
	list               []Neighbour
	byUID, byLB, byKey map[string]*Neighbour
}

func indexNeighbours(list []Neighbour) *neighbours {
	out := &neighbours{list: list, byUID: map[string]*Neighbour{}, byLB: map[string]*Neighbour{}, byKey: map[string]*Neighbour{}}
	for i := range list {
		n := &list[i]
		out.byUID[n.UID], out.byLB[lbNameOf(n.UID)], out.byKey[n.Namespace+"/"+n.Name] = n, n, n
	}
	return out
}

// ofRule returns the Service of a rule by its tags, or by its name where it has none; nil when the cluster has no such
// Service.
func (n *neighbours) ofRule(name, clusterName string, tags map[string]string) *Neighbour {
	if uid := tags[TagServiceUID]; uid != "" {
		return n.byUID[uid]
	}
	if lb, _, _, _, ok := ParseRuleName(name); ok {
		return n.byLB[lb]
	}
	if m := leasewebName.FindStringSubmatch(name); m != nil && m[1] == clusterName {
		return n.byKey[m[2]+"/"+m[3]]
	}
	return nil
}

// neighboursOf reads the cluster's Services once a task.
func (r *Reconciler) neighboursOf(ctx context.Context, t *task) (*neighbours, error) {
	if t.neighbours != nil {
		return t.neighbours, nil
	}
	var list []Neighbour
	if r.options.Neighbours != nil {
		var err error
		if list, err = r.options.Neighbours(ctx); err != nil {
			return nil, fmt.Errorf("list the Services that may share an address: %w", err)
		}
	}
	t.neighbours = indexNeighbours(list)
	return t.neighbours, nil
}

// holders finds out which Service of the cluster has an address and its rules, and whether the task's Service may join
// them.
func (r *Reconciler) holders(ctx context.Context, t *task, a *Address, tags map[string]string, rules map[string]map[string]string) error {
	unguarded := r.options.Unguarded[GuardSharing]
	for i := range a.Rules {
		rule := &a.Rules[i]
		if rule.Owner == Mine {
			continue
		}
		others, err := r.neighboursOf(ctx, t)
		if err != nil {
			return err
		}
		if n := others.ofRule(rule.Name, r.clusterName(), rules[rule.ID]); n != nil {
			rule.Near = n.Namespace == t.Service.Namespace
			rule.Service, rule.Admits = n.Namespace+"/"+n.Name, unguarded || n.admits(t.Service.Namespace)
		}
	}
	uid, kept := tags[TagServiceUID], tags[TagKeptBy]
	switch {
	case a.ForeignCluster || uid == t.Service.UID:
	case kept != "":
		namespace, _, _ := strings.Cut(kept, "/")
		a.Holder, a.Kept, a.Admits = kept, true, namespace == t.Service.Namespace || r.options.Unguarded[GuardKept]
	case uid != "":
		others, err := r.neighboursOf(ctx, t)
		if err != nil {
			return err
		}
		n := others.byUID[uid]
		if n == nil { // gone: its namespace is what the tag says
			namespace, name, _ := strings.Cut(tags[TagService], "/")
			n = &Neighbour{UID: uid, Namespace: namespace, Name: name}
		}
		a.Holder, a.Admits = n.Namespace+"/"+n.Name, unguarded || n.admits(t.Service.Namespace)
	}
	return nil
}

func (r *Reconciler) clusterName() string {
	if r.options.ClusterName == "" {
		return defaultClusterName
	}
	return r.options.ClusterName
}

// defaultClusterName is the framework's default for --cluster-name.
const defaultClusterName = "kubernetes"
