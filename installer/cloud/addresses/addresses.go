// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresses decides which public addresses the controller may release together with their Services, and tags
// them in CloudStack. The annotations that say who acquired an address are no proof, because everyone who can edit the
// Service can write them. The tags are a proof, because only an operator with the CloudStack keys can set them.
package addresses

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Verdict is the decision about a Service's address.
type Verdict string

// Verdicts.
const (
	Adopt   Verdict = "adopt"   // the address will be tagged
	Done    Verdict = "done"    // the address is already tagged for the Service
	Refused Verdict = "refused" // see Item.Why
)

// Item is a Service with its address.
type Item struct {
	Service   string  `json:"service"` // namespace/name
	Address   string  `json:"address,omitempty"`
	AddressID string  `json:"addressID,omitempty"`
	Verdict   Verdict `json:"verdict"`
	Why       string  `json:"why"`

	// Doubt is the reason why an address with the verdict Adopt may not have been acquired by the old provider: the
	// Service requests the address, or shares it. It is empty if only the old provider can have acquired the address.
	Doubt string `json:"-"`

	tags    map[string]string // tags to add
	project string            // project of the address
}

// Undoubted reports whether the address may be adopted without asking, because only the old provider can have acquired
// it.
func (it *Item) Undoubted() bool { return it.Verdict == Adopt && it.Doubt == "" }

// String returns the address and its Service.
func (it *Item) String() string {
	return fmt.Sprintf("address %s of Service %s", it.Address, it.Service)
}

// Facts are the input of a plan.
type Facts struct {
	ClusterIDs []string         // the current one, then former ones
	Services   []corev1.Service // all of the cluster
	Addresses  []cloudstack.PublicIP
	Rules      []cloudstack.LoadBalancerRule
	Forwards   []cloudstack.PortForwarding
}

// Read reads the addresses, rules and port forwardings of a project; "" is the account itself.
func Read(ctx context.Context, api *cloudapi.Client, project string) (f *Facts, err error) {
	f = &Facts{}
	if f.Addresses, err = api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project}); err != nil {
		return nil, err
	}
	if f.Rules, err = api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project}); err != nil {
		return nil, err
	}
	f.Forwards, err = api.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	return f, err
}

// Tag adds the tags of an item to its address. The controller may tag the address at the same time. CloudStack then
// refuses the whole call, because one of the tags exists; Tag tries again with the tags that are still missing.
func Tag(ctx context.Context, api *cloudapi.Client, it *Item) error {
	missing := maps.Clone(it.tags)
	for {
		job, err := api.CreateTags(ctx, plan.ResourcePublicIP, []string{it.AddressID}, missing)
		if err == nil {
			_, err = api.Jobs().Wait(ctx, "createTags", job.JobID)
		}
		if err == nil {
			return nil
		}

		now, failed := api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: it.AddressID, ProjectID: it.project})
		if failed != nil || len(now) != 1 {
			return err
		}
		before := len(missing)
		maps.DeleteFunc(missing, func(key, value string) bool { return now[0].Tags[key] == value })
		if len(missing) == before { // another problem, such as a tag with another value
			return err
		}
		if len(missing) == 0 {
			return nil
		}
	}
}

// Untag removes csccm's tags from an address.
func Untag(ctx context.Context, api *cloudapi.Client, a *cloudstack.PublicIP) error {
	job, err := api.DeleteTags(ctx, plan.ResourcePublicIP, []string{a.ID}, plan.PresentTagKeys(a.Tags))
	if err == nil {
		_, err = api.Jobs().Wait(ctx, "deleteTags", job.JobID)
	}
	return err
}

// Marked reports whether the tags of an address prove that the controller acquired it for a Service.
func Marked(a *cloudstack.PublicIP, svc *corev1.Service) bool {
	return a.Tags[plan.TagServiceUID] == string(svc.UID) && a.Tags[plan.TagAllocatedBy] == plan.ManagedBy
}

// MakePlan decides about the addresses of the chosen Services. Unless they are named, it considers only those with the
// annotation that Apache's provider acquired the address. It is a pure function.
func MakePlan(f *Facts, chosen []*corev1.Service, named bool) (items []Item) {
	for _, svc := range chosen {
		if recorded, _ := annotation.Bool(svc.Annotations[annotation.AssociatedByController]); recorded || named {
			items = append(items, f.item(svc))
		}
	}
	return items
}

func (f *Facts) item(svc *corev1.Service) Item {
	id := loadbalancer.ServiceOf(svc)
	out := Item{Service: id.Key(), Verdict: Refused}
	a, why := f.addressOf(id)
	if out.Why = why; a == nil {
		return out
	}
	out.Address, out.AddressID, out.project = a.Address, a.ID, a.ProjectID
	if Marked(a, svc) && slices.Contains(f.ClusterIDs, a.Tags[plan.TagCluster]) {
		out.Verdict, out.Why = Done, "is already handed over"
	} else if out.Why = f.against(id, a); out.Why == "" {
		out.Verdict, out.Why, out.tags = Adopt, "is tagged", plan.Tags(f.ClusterIDs[0], id)
		out.Doubt = f.doubt(svc, id, a)
		for key := range a.Tags {
			delete(out.tags, key) // keep existing tags
		}
	}
	return out
}

// Asked reports whether somebody requested a specific address for a Service. Leaseweb's provider writes the address
// annotation on each Service, together with the network's id; such an annotation is not a request.
func Asked(svc *corev1.Service) bool {
	recorded := svc.Annotations[annotation.LeasewebNetworkID] != ""
	return svc.Spec.LoadBalancerIP != "" || svc.Annotations[annotation.Address] != "" && !recorded
}

// doubt returns the reason why somebody other than a provider may have acquired the address of a Service; "" if there
// is none.
func (f *Facts) doubt(svc *corev1.Service, id plan.Service, a *cloudstack.PublicIP) string {
	if Asked(svc) {
		return "the Service asks for it by name"
	}
	if slices.ContainsFunc(f.Rules, func(r cloudstack.LoadBalancerRule) bool {
		return r.PublicIPID == a.ID && rules.ParseName(r.Name).LB != id.LB
	}) {
		return "other Services use it, too"
	}
	if keepIP, _ := annotation.Bool(svc.Annotations[annotation.KeepIP]); keepIP {
		return "the annotation keep-ip keeps it"
	}
	return ""
}

// forwards reports whether a port forwarding belongs to the Service, by its tags.
func (f *Facts) forwards(fw *cloudstack.PortForwarding, id plan.Service) bool {
	return fw.Tags[plan.TagServiceUID] == id.UID && slices.Contains(f.ClusterIDs, fw.Tags[plan.TagCluster])
}

// addressOf returns the only address on which the Service has rules with its own name, or port forwardings; otherwise
// nil and the reason.
func (f *Facts) addressOf(id plan.Service) (address *cloudstack.PublicIP, why string) {
	ids := sets.New[string]()
	for _, r := range f.Rules {
		if rules.ParseName(r.Name).LB == id.LB {
			ids.Insert(r.PublicIPID)
		}
	}

	for _, fw := range f.Forwards {
		if f.forwards(&fw, id) {
			ids.Insert(fw.PublicIPID)
		}
	}

	at := slices.IndexFunc(f.Addresses, func(a cloudstack.PublicIP) bool { return ids.Has(a.ID) })
	switch {
	case len(ids) > 1:
		return nil, "it has rules on several addresses; run csccm migrate-rules first"
	case at < 0:
		return nil, "it has no load balancer rules under its own name and no port forwardings; " +
			"run csccm migrate-rules first if they have older names"
	}

	return &f.Addresses[at], ""
}

// against returns the reason not to release the address with the Service; "" if there is none.
func (f *Facts) against(id plan.Service, a *cloudstack.PublicIP) string {
	for _, tag := range []struct{ key, own string }{
		{plan.TagServiceUID, id.UID},
		{plan.TagService, id.Key()},
		{plan.TagKeptBy, ""},
	} {
		if value := a.Tags[tag.key]; value != "" && value != tag.own {
			return fmt.Sprintf("its tag %s=%s gives the address to another Service; "+
				"if that Service no longer exists, delete the tag in CloudStack", tag.key, value)
		}
	}

	if cluster := a.Tags[plan.TagCluster]; cluster != "" && !slices.Contains(f.ClusterIDs, cluster) {
		return fmt.Sprintf("its tags give the address to cluster %s; "+
			"if this cluster had that id, add it to former-cluster-ids in the cloud-config", cluster)
	}

	switch {
	case a.SourceNAT:
		return "the address is the network's source NAT address"
	case a.StaticNAT:
		return "the address carries static NAT"
	}

	for _, fw := range f.Forwards {
		if fw.PublicIPID == a.ID && !f.forwards(&fw, id) {
			return fmt.Sprintf("port %d of the address is forwarded to VM %s", fw.StartPort, cmp.Or(fw.VMName, fw.VMID))
		}
	}

	living := sets.New[string]()
	for _, svc := range f.Services {
		living.Insert(loadbalancer.ServiceOf(&svc).LB)
	}

	for _, r := range f.Rules {
		if r.PublicIPID == a.ID && !living.Has(rules.ParseName(r.Name).LB) {
			return fmt.Sprintf("load balancer rule %s on the address is of no Service of this cluster", r.Name)
		}
	}

	return ""
}
