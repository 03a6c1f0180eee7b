// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
)

// maxEntries is the length of the time line.
const maxEntries = 200

// planned are the plans of Services for which the controller would do something, or which it refuses.
func (b *builder) planned() []model.Plan {
	var out []model.Plan
	for _, p := range b.plans {
		id := serviceID(p.Service)
		if b.objects[id] == nil {
			continue
		}
		plan := model.Plan{Service: id, Actions: actionsOf(p)}
		if p.Refusal != nil {
			plan.Refusal, plan.Remedy = p.Refusal.Message, p.Refusal.Remedy
		}
		if p.Pending > 0 {
			plan.Actions = append(plan.Actions, model.Action{Sign: "~", Label: "ask CloudStack for the outcome of an acquisition of an address"})
		}
		if p.Error != "" {
			plan.Refusal = "no plan: " + p.Error
		}
		if plan.Refusal != "" || len(plan.Actions) > 0 {
			out = append(out, plan)
		}
	}
	return out
}

// statuses are what the page calls doctor's outcomes.
var statuses = map[check.Outcome]string{check.OK: "ok", check.Warning: "warning", check.Failed: "error", check.Skipped: "skipped", check.Unknown: "unknown"}

func (b *builder) checks() []model.Check {
	var out []model.Check
	for i := range b.Checks {
		r := &b.Checks[i]
		c := model.Check{Code: r.Code, Title: r.Title, Category: r.Category, Status: statuses[r.Outcome], Message: r.Message, Remedy: r.Remedy, Link: r.Hint}
		for _, o := range r.Objects {
			c.Objects = append(c.Objects, model.About{ID: b.byName[nameOf(&o)], Text: strings.TrimSuffix(o.String()+": "+o.Message, ": ")})
		}
		out = append(out, c)
	}
	return out
}

// timeline is what happened, newest first: Events about Services and Nodes, and who led.
func (b *builder) timeline() []model.Entry {
	var out []model.Entry
	holders := map[string]string{} // by the lease
	for i := range b.Leases {
		if l := &b.Leases[i]; decide.IsElection(l) && l.Spec.AcquireTime != nil {
			entry := model.Entry{At: l.Spec.AcquireTime.UTC(), Kind: "leader", Reason: "LeaderElection", Message: *l.Spec.HolderIdentity + " became leader"}
			out, holders[l.Name] = append(out, entry), entry.Message
		}
	}
	for i := range b.Events {
		e := &b.Events[i]
		entry := model.Entry{
			At: eventTime(e).UTC(), Kind: "event", Reason: e.Reason, Message: e.Message, Warning: e.Type == "Warning", Count: int(e.Count),
		}
		about := e.InvolvedObject.Name
		switch e.InvolvedObject.Kind {
		case "Service":
			about = serviceID(e.InvolvedObject.Namespace + "/" + about)
			if b.objects[about] == nil && e.Reason != "Orphan" && !strings.Contains(e.Reason, "LoadBalancer") {
				continue // of a Service that is no load balancer
			}
		case "Node":
			about = nodeID(about)
		case "Lease": // of another component, or what the lease says already
			if message, election := holders[about]; !election || message == e.Message {
				continue
			}
			entry.Kind = "leader"
		default:
			continue
		}
		if e.Reason == string(lbplan.ReasonDriftRepaired) {
			entry.Kind = "drift"
		}
		if b.objects[about] != nil {
			entry.Object = about
		} else if entry.Kind != "leader" {
			entry.Message = fmt.Sprintf("%s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
		out = append(out, entry)
	}
	slices.SortStableFunc(out, func(x, y model.Entry) int { return y.At.Compare(x.At) })
	return out[:min(len(out), maxEntries)]
}

// controller is the controller manager: its Pods, and who leads. It is nil if there is neither.
func (b *builder) controller() *model.Controller {
	c := &model.Controller{Replicas: len(b.Pods)}
	for i := range b.Pods {
		if cluster.PodReady(&b.Pods[i]) {
			c.Ready++
		}
		_, tag, _ := strings.Cut(path.Base(b.Pods[i].Spec.Containers[0].Image), ":")
		tag, _, _ = strings.Cut(tag, "@")
		if !slices.Contains(strings.Split(c.Version, ", "), tag) {
			c.Version = strings.TrimPrefix(c.Version+", "+tag, ", ")
		}
	}
	for i := range b.Leases {
		if l := &b.Leases[i]; decide.IsElection(l) && l.Spec.RenewTime.After(c.Renewed) {
			c.Leader, c.Renewed, c.Duration = *l.Spec.HolderIdentity, l.Spec.RenewTime.UTC(), int(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))
		}
	}
	if *c == (model.Controller{}) {
		return nil
	}
	return c
}
