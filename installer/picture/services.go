// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/plan"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

const maxAnnotation = 1000 // letters of a value

func (b *builder) services() {
	for _, svc := range b.handled {
		name := svc.Namespace + "/" + svc.Name
		o := b.add(model.Object{ID: serviceID(name), Kind: model.KindService, Name: svc.Name, Group: svc.Namespace})
		b.byName["Service "+name] = o.ID
		var ports, ips []string
		for _, p := range svc.Spec.Ports {
			ports = append(ports, portText(int(p.Port), cmp.Or(string(p.Protocol), "TCP")))
		}
		for _, in := range svc.Status.LoadBalancer.Ingress {
			ips = append(ips, cmp.Or(in.IP, in.Hostname))
		}
		o.Label = strings.ReplaceAll(strings.Join(ports, ", "), "/tcp", "")
		o.Facts = model.Facts(
			"Service", name, "Address", strings.Join(ips, ", "), "Ports", strings.Join(ports, ", "),
			"External traffic policy", string(svc.Spec.ExternalTrafficPolicy), "Source ranges", strings.Join(svc.Spec.LoadBalancerSourceRanges, ", "),
			"UID", string(svc.UID), "Created", stamp(svc.CreationTimestamp))
		b.serviceHealth(o, svc)
		for i := range svc.Status.Conditions {
			c := &svc.Status.Conditions[i]
			o.Facts = append(o.Facts, model.Facts("Condition "+c.Type, strings.TrimSpace(fmt.Sprintf("%s (%s) %s", c.Status, c.Reason, c.Message)))...)
		}
		for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
			if key != corev1.LastAppliedConfigAnnotation { // the whole object once more
				o.Facts = append(o.Facts, model.Facts("Annotation "+key, terminal.Cut(svc.Annotations[key], maxAnnotation))...)
			}
		}
		o.Commands = []string{
			fmt.Sprintf("kubectl -n %s describe service %s", svc.Namespace, svc.Name),
			b.csccm("plan " + name), b.csccm("doctor --only LB"),
		}
	}
}

func (b *builder) serviceHealth(o *model.Object, svc *corev1.Service) {
	name := svc.Namespace + "/" + svc.Name
	served := len(svc.Status.LoadBalancer.Ingress) > 0
	ready := apimeta.FindStatusCondition(svc.Status.Conditions, service.ConditionReady)
	switch {
	case svc.DeletionTimestamp != nil:
		worsen(o, model.HealthPending, "the Service is being deleted")
	case ready != nil && ready.Status == metav1.ConditionFalse:
		worsen(o, model.HealthError, ready.Reason+": "+ready.Message)
	case !served:
		worsen(o, model.HealthPending, "the Service has no address yet")
	}
	if p := b.Planned[name]; p != nil {
		n := len(p.Actions)
		switch {
		case p.Error != "":
			worsen(o, model.HealthWarning, "no plan: "+p.Error)
		case p.Refusal != nil:
			worsen(o, model.HealthError, string(p.Refusal.Reason)+": "+p.Refusal.Message)
		case n > 0 && served && svc.DeletionTimestamp == nil && !onlyChanges(p):
			worsen(o, model.HealthWarning, fmt.Sprintf("CloudStack differs from the Service: %s planned", english.Plural(n, "action", "")))
		case n > 0 || p.Pending > 0:
			worsen(o, model.HealthPending, english.Plural(n, "action", "")+" planned")
		}
		for _, notice := range p.Notices {
			if notice.Warning && notice.Reason != node.ReasonWithoutVM { // the Node says so itself
				worsen(o, model.HealthWarning, notice.Message)
			}
		}
	}
	b.diagnose(o, "Service "+name)
	if next := b.next[name]; o.Health != model.HealthOK && next.After(b.At) {
		o.Facts = append(o.Facts, model.Facts("Next try", stamp(metav1.NewTime(next)))...)
	}
}

// onlyChanges reports whether a plan only changes rules that stand, as when a node joins or leaves: the Service is served all
// the time.
func onlyChanges(p *plan.Service) bool {
	return !slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
		return a.Held || a.Sign() != lbplan.Changes && a.Kind != lbplan.AddMembers && a.Kind != lbplan.RemoveMembers
	})
}

// actionsOf are the actions of a plan as they are shown.
func actionsOf(p *plan.Service) []model.Action {
	var out []model.Action
	for i := range p.Actions {
		out = append(out, model.Action{Sign: p.Actions[i].Sign(), Label: p.Actions[i].Text()})
	}
	return out
}

func eventTime(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

func portText(port int, protocol string) string {
	return fmt.Sprintf("%d/%s", port, strings.ToLower(protocol))
}

func stamp(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
