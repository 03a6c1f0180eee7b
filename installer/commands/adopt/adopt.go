// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adopt hands addresses over to the controller: from then on it releases them with their Services. What a
// Service says about who acquired its address proves nothing, since whoever may write the Service may write that; an
// operator with the CloudStack keys gives the proof, a tag in CloudStack.
package adopt

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
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

// Run hands over the addresses of the named Services, or of those whose address Apache's provider says it acquired.
func Run(ctx context.Context, e *engine.Env, cs *access.Cloud, services planner.Selection) error {
	facts, err := read(ctx, e, cs)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	chosen, err := services.Of(facts.Services)
	if err != nil {
		return err
	}
	p := e.NewPlan()
	var steps []engine.Step
	refused := false
	for _, it := range MakePlan(*facts, chosen, len(services) > 0) {
		p.Add(string(it.Verdict), fmt.Sprintf("%s, address %s: %s", it.Service, cmp.Or(it.Address, "none"), it.Why), it)
		refused = refused || it.Verdict == Refused
		if it.Verdict == Adopt {
			what := fmt.Sprintf("address %s of Service %s", it.Address, it.Service)
			steps = append(steps, engine.Step{Name: "tags for " + it.Service, Do: func(ctx context.Context, note engine.Note) error {
				e.Progress.Step("Tagging %s", what)
				if err := tag(ctx, cs, &it); err != nil {
					fix := "run the same command again to go on"
					if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
						fix = "allow the role createTags, or give the keys of a user who may tag with --cloud-config"
					}
					return report.Remedied(fmt.Errorf("tag %s: %w", what, err), fix)
				}
				note("%s", what)
				e.Progress.Done("")
				return nil
			}})
		}
	}
	if len(p.Changes) == 0 {
		p.Add("adopt", "nothing: no Service says that another provider acquired its address. Name Services to hand theirs over.", nil)
	}
	err = e.Run(ctx, engine.Operation{
		Name: "adopt", What: "hand over " + english.Plural(len(steps), "address", ""), Plan: p, Steps: steps,
		Question: prompt.Question{Help: "The controller releases them when their Services are deleted."},
	})
	if err == nil && refused {
		return &report.Error{Code: report.ExitCheckFailed}
	}
	return err
}

func tag(ctx context.Context, cs *access.Cloud, it *Item) error {
	job, err := cs.Client.CreateTags(ctx, plan.ResourcePublicIP, []string{it.AddressID}, it.tags)
	if err == nil {
		_, err = cs.Client.Jobs().Wait(ctx, "createTags", job.JobID)
	}
	return err
}

func read(ctx context.Context, e *engine.Env, cs *access.Cloud) (*Facts, error) {
	_, settings, err := planner.PreviewerOf(ctx, e.Cluster, cs, e.Release, "")
	f := &Facts{ClusterIDs: append([]string{settings.ClusterID}, cs.Config.FormerClusterIDs...)}
	f.Services = cluster.List(ctx, &err, e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	project := ""
	if err == nil {
		project, err = inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID}).ProjectID(ctx)
	}
	if err == nil {
		f.Addresses, err = cs.Client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project})
	}
	if err == nil {
		f.Rules, err = cs.Client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project})
	}
	if err == nil {
		f.Forwards, err = cs.Client.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	}
	return f, err
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
		if rules.ParseName(f.Rules[i].Name).LB == id.LB {
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
		if r := &f.Rules[i]; r.PublicIPID == a.ID && !living.Has(rules.ParseName(r.Name).LB) {
			return fmt.Sprintf("load balancer rule %s on the address is of no Service of this cluster", r.Name)
		}
	}
	return ""
}
