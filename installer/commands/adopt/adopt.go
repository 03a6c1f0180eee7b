// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adopt hands addresses over to the controller: from then on it releases them with their Services. What a
// Service says about who acquired its address proves nothing, since whoever may write the Service may write that; an
// operator with the CloudStack keys gives the proof, a tag in CloudStack.
package adopt

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Verdict says what is done with a Service's address.
type Verdict string

// Verdicts.
const (
	Adopt   Verdict = "adopt"   // the address is tagged
	Done    Verdict = "done"    // it is the Service's already
	Refused Verdict = "refused" // see Item.Why
)

// Item is one Service with its address.
type Item struct {
	Service   string  `json:"service"` // namespace/name
	Address   string  `json:"address,omitempty"`
	AddressID string  `json:"addressID,omitempty"`
	Verdict   Verdict `json:"verdict"`
	Why       string  `json:"why"`

	tags map[string]string // that the address gets
}

// Facts are what a plan rests on.
type Facts struct {
	ClusterIDs []string         // the current one, then former ones
	Services   []corev1.Service // all of the cluster
	Addresses  []cloudstack.PublicIP
	Rules      []cloudstack.LoadBalancerRule
	Forwards   []cloudstack.PortForwarding
}

// MakePlan decides about the chosen Services: those that are named, or else those whose annotation says that Apache's provider
// acquired the address. It is pure.
func MakePlan(f Facts, chosen []*corev1.Service, named bool) (items []Item) {
	for _, svc := range chosen {
		if recorded, _ := annotation.Bool(svc.Annotations[annotation.AssociatedByController]); recorded || named {
			items = append(items, f.item(loadbalancer.ServiceOf(svc)))
		}
	}
	return items
}

func (f *Facts) item(id plan.Service) Item {
	out := Item{Service: id.Key(), Verdict: Refused}
	a, why := f.addressOf(id)
	if out.Why = why; a == nil {
		return out
	}
	out.Address, out.AddressID = a.Address, a.ID
	if a.Tags[plan.TagServiceUID] == id.UID && a.Tags[plan.TagAllocatedBy] == plan.ManagedBy && slices.Contains(f.ClusterIDs, a.Tags[plan.TagCluster]) {
		out.Verdict, out.Why = Done, "is handed over already"
	} else if out.Why = f.against(id, a); out.Why == "" {
		out.Verdict, out.Why, out.tags = Adopt, "is tagged", plan.Tags(f.ClusterIDs[0], id)
		for key := range a.Tags {
			delete(out.tags, key) // one that is there is left
		}
	}
	return out
}

// forwards reports whether a port forwarding is the Service's by its tags.
func (f *Facts) forwards(fw *cloudstack.PortForwarding, id plan.Service) bool {
	return fw.Tags[plan.TagServiceUID] == id.UID && slices.Contains(f.ClusterIDs, fw.Tags[plan.TagCluster])
}

// addressOf finds the one address on which the Service has rules by its own name, or port forwardings.
func (f *Facts) addressOf(id plan.Service) (address *cloudstack.PublicIP, why string) {
	ids := sets.New[string]()
	for i := range f.Rules {
		if lb, _, _, _, ok := plan.ParseRuleName(f.Rules[i].Name); ok && lb == id.LB {
			ids.Insert(f.Rules[i].PublicIPID)
		}
	}
	for i := range f.Forwards {
		if f.forwards(&f.Forwards[i], id) {
			ids.Insert(f.Forwards[i].PublicIPID)
		}
	}
	at := slices.IndexFunc(f.Addresses, func(a cloudstack.PublicIP) bool { return ids.Has(a.ID) })
	switch {
	case len(ids) > 1:
		return nil, "it has rules on several addresses; run csccm migrate-rules first"
	case at < 0:
		return nil, "it has no load balancer rules under its own name and no port forwardings; run csccm migrate-rules first if they have older names"
	}
	return &f.Addresses[at], ""
}

// against says what speaks against releasing the address with the Service.
func (f *Facts) against(id plan.Service, a *cloudstack.PublicIP) string {
	for key, value := range map[string]string{plan.TagServiceUID: id.UID, plan.TagKeptBy: ""} {
		if tag := a.Tags[key]; tag != "" && tag != value {
			return fmt.Sprintf("its tag %s=%s gives the address to another Service", key, tag)
		}
	}
	if cluster := a.Tags[plan.TagCluster]; cluster != "" && !slices.Contains(f.ClusterIDs, cluster) {
		return fmt.Sprintf("its tags give the address to cluster %s; if this cluster had that id, add it to former-cluster-ids in the cloud-config", cluster)
	}
	switch {
	case a.SourceNAT:
		return "the address is the network's source NAT address"
	case a.StaticNAT:
		return "the address carries static NAT"
	}
	for i := range f.Forwards {
		fw := &f.Forwards[i]
		if fw.PublicIPID == a.ID && !f.forwards(fw, id) {
			return fmt.Sprintf("port %d of the address is forwarded to VM %s", fw.StartPort, cmp.Or(fw.VMName, fw.VMID))
		}
	}
	living := sets.New[string]()
	for i := range f.Services {
		living.Insert(loadbalancer.ServiceOf(&f.Services[i]).LB)
	}
	for i := range f.Rules {
		r := &f.Rules[i]
		if lb, _, _, _, ok := plan.ParseRuleName(r.Name); r.PublicIPID == a.ID && (!ok || !living.Has(lb)) {
			return fmt.Sprintf("load balancer rule %s on the address is of no Service of this cluster", r.Name)
		}
	}
	return ""
}
