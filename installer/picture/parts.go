// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/plan"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
)

// maxEntries is the length of the time line.
const maxEntries = 200

// plans are those of Services for which the controller would do something, or which it refuses.
func (b *builder) plans() []model.Plan {
	var out []model.Plan
	for _, p := range b.Plans {
		id := serviceID(p.Service)
		if b.objects[id] == nil {
			continue
		}
		plan := model.Plan{Service: id, Actions: planned(p)}
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

// timeline is what happened, newest first: Events about Services and Nodes, who led, and what others changed in CloudStack.
func (b *builder) timeline() []model.Entry {
	out := slices.Clone(b.Seen)
	for i := range out {
		if e := &out[i]; e.Object != "" && b.objects[e.Object] == nil {
			e.Message, e.Object = fmt.Sprintf("%s: %s", e.Object, e.Message), ""
		}
	}
	for i := range b.Events {
		e := &b.Events[i]
		var id string
		switch e.InvolvedObject.Kind {
		case "Service":
			id = serviceID(e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name)
			if b.objects[id] == nil && e.Reason != "Orphan" && !strings.Contains(e.Reason, "LoadBalancer") {
				continue // of a Service that is no load balancer
			}
		case "Node":
			id = nodeID(e.InvolvedObject.Name)
		default:
			continue
		}
		entry := model.Entry{
			At: eventTime(e).UTC(), Kind: "event", Reason: e.Reason, Message: e.Message, Warning: e.Type == "Warning", Count: int(e.Count),
		}
		if e.Reason == string(lbplan.ReasonDriftRepaired) {
			entry.Kind = "drift"
		}
		if b.objects[id] != nil {
			entry.Object = id
		} else {
			entry.Message = fmt.Sprintf("%s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
		out = append(out, entry)
	}
	for i := range b.Leases {
		l := &b.Leases[i]
		if !decide.IsElection(l) || l.Spec.AcquireTime == nil {
			continue
		}
		out = append(out, Leading(l.Name, *l.Spec.HolderIdentity, l.Spec.AcquireTime.Time))
	}
	slices.SortStableFunc(out, func(x, y model.Entry) int { return y.At.Compare(x.At) })
	out = slices.CompactFunc(out, func(x, y model.Entry) bool { return x.Kind == "leader" && x == y })
	return out[:min(len(out), maxEntries)]
}

// Controller is the controller manager: its Pods, and who leads. It is nil if there is neither.
func Controller(pods []corev1.Pod, leases []coordinationv1.Lease) *model.Controller {
	c := &model.Controller{Replicas: len(pods)}
	for i := range pods {
		if cluster.PodReady(&pods[i]) {
			c.Ready++
		}
		_, tag, _ := strings.Cut(path.Base(pods[i].Spec.Containers[0].Image), ":")
		tag, _, _ = strings.Cut(tag, "@")
		if !slices.Contains(strings.Split(c.Version, ", "), tag) {
			c.Version = strings.TrimPrefix(c.Version+", "+tag, ", ")
		}
	}
	for i := range leases {
		if l := &leases[i]; decide.IsElection(l) && l.Spec.RenewTime.After(c.Renewed) {
			c.Leader, c.Renewed, c.Duration = *l.Spec.HolderIdentity, l.Spec.RenewTime.UTC(), int(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))
		}
	}
	if *c == (model.Controller{}) {
		return nil
	}
	return c
}

// Drifted is the entry for a Service that CloudStack no longer serves as the controller had left it: planned is what the
// controller would do.
func Drifted(p *plan.Service, seen time.Time) model.Entry {
	var labels []string
	for _, a := range planned(p) {
		labels = append(labels, a.Sign+" "+a.Label)
	}
	return model.Entry{
		At: seen.UTC(), Kind: "drift", Object: serviceID(p.Service), Reason: "Drift", Warning: true,
		Message: "CloudStack was changed by others; the plan is " + short(strings.Join(labels, ", "), maxAnnotation),
	}
}

// Repaired is the entry for a Service that is served again after a drift.
func Repaired(p *plan.Service, seen time.Time) model.Entry {
	return model.Entry{At: seen.UTC(), Kind: "drift", Object: serviceID(p.Service), Reason: "Repaired", Message: "CloudStack has again what the Service asks for"}
}

// Leading is the entry for a new leader.
func Leading(lease, holder string, since time.Time) model.Entry {
	return model.Entry{At: since.UTC(), Kind: "leader", Reason: "LeaderElected", Message: holder + " leads (lease " + lease + ")"}
}
