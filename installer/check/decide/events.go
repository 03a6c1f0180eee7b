// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
)

// eventWindow is how far back Events count.
const eventWindow = time.Hour

// cloudComponents report Events of cloud controllers.
var cloudComponents = []string{"service-controller", "cloud-node-controller", "cloud-node-lifecycle-controller", "cloud-controller-manager", "cloudstack-cloud-controller-manager"}

// successes are the reasons that end what a warning began.
var successes = []string{"EnsuredLoadBalancer", "UpdatedLoadBalancer", "DeletedLoadBalancer", "Synced", string(node.ReasonInService), string(node.ReasonAdopted)}

func openErrors(f *Facts) Finding {
	last := map[corev1.ObjectReference]*corev1.Event{} // of two at once the success
	for i := range f.Events {
		e := &f.Events[i]
		open := e.Type == corev1.EventTypeWarning && f.At.Sub(EventTime(e)) <= eventWindow && FromCloud(e) && !f.over(e)
		if open || slices.Contains(successes, e.Reason) {
			key := corev1.ObjectReference{Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}
			if was := last[key]; was == nil || cmp.Or(EventTime(e).Compare(EventTime(was)), cmp.Compare(was.Type, e.Type)) > 0 {
				last[key] = e
			}
		}
	}
	var objects []Object
	for o, e := range last {
		if !slices.Contains(successes, e.Reason) {
			objects = append(objects, objectf(o.Kind, o.Namespace, o.Name, "%s %s ago: %s", e.Reason, f.At.Sub(EventTime(e)).Round(time.Second), OneLine(e.Message)))
		}
	}
	slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.String(), b.String()) })
	return Passf("none in the last hour").Unless(objects, "object", "%s with an open warning")
}

// over reports whether a warning is over although no later Event says so, as of drift that was repaired: its object is gone, or has
// become well.
func (f *Facts) over(e *corev1.Event) bool {
	o := &e.InvolvedObject
	if o.Kind == "Service" && f.Err(Services) == nil {
		i := slices.IndexFunc(f.Services, func(s corev1.Service) bool {
			return s.Namespace == o.Namespace && s.Name == o.Name && (o.UID == "" || s.UID == o.UID)
		})
		if i < 0 {
			return true
		}
		c := apimeta.FindStatusCondition(f.Services[i].Status.Conditions, service.ConditionReady)
		repaired := e.Reason == string(plan.ReasonDriftRepaired) || e.Reason == string(plan.ReasonAddressLost)
		return c != nil && c.Status == "True" && (repaired || !EventTime(e).After(c.LastTransitionTime.Time))
	}
	if o.Kind == "Node" && f.Err(Nodes) == nil {
		i := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == o.Name })
		if i < 0 {
			return true
		}
		_, hasVM := f.VM(&f.Nodes[i])
		return hasVM && node.Ready(&f.Nodes[i]) && initialised(&f.Nodes[i])
	}
	return false
}

// FromCloud reports whether a cloud controller reported an Event.
func FromCloud(e *corev1.Event) bool {
	return slices.Contains(cloudComponents, e.Source.Component) || slices.Contains(cloudComponents, e.ReportingController)
}

// EventTime is when an Event was last seen.
func EventTime(e *corev1.Event) time.Time {
	times := []time.Time{e.CreationTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// OneLine returns a text with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
