// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"maps"
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

// overWhenWell are the reasons of warnings that are over when the Node is Ready, initialised and one VM, or the Service is
// Ready: not every repair has an Event.
var overWhenWell = []string{
	string(node.ReasonWithoutVM), string(node.ReasonAmbiguousVM), string(node.ReasonInvalidProviderID), string(node.ReasonDeletionRefused),
	string(node.ReasonNotAdopted), string(node.ReasonOutOfService), string(node.ReasonOutOfServiceRefused),
	string(plan.ReasonDriftRepaired), string(plan.ReasonAddressLost),
}

func openErrors(f *Facts) Finding {
	last := map[string]*corev1.Event{} // by object; of two at once the success
	for i := range f.Events {
		e := &f.Events[i]
		warning := e.Type == corev1.EventTypeWarning && f.At.Sub(eventTime(e)) <= eventWindow && FromCloud(e) && !f.over(e)
		if !warning && !slices.Contains(successes, e.Reason) {
			continue
		}
		o := &e.InvolvedObject
		key := o.Kind + "/" + o.Namespace + "/" + o.Name
		if was := last[key]; was == nil || cmp.Or(eventTime(e).Compare(eventTime(was)), cmp.Compare(was.Type, e.Type)) > 0 {
			last[key] = e
		}
	}
	var objects []Object
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if e := last[key]; !slices.Contains(successes, e.Reason) {
			objects = append(objects, objectf(e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name,
				"%s %s ago: %s", e.Reason, f.At.Sub(eventTime(e)).Round(time.Second), OneLine(e.Message)))
		}
	}
	return Passf("none in the last hour").Unless(objects, "object", "%s with an open warning")
}

// over reports whether a warning is over although no later Event says so: its object is gone, has become well since, or is well
// and the reason is one of overWhenWell.
func (f *Facts) over(e *corev1.Event) bool {
	o, often := &e.InvolvedObject, slices.Contains(overWhenWell, e.Reason)
	if o.Kind == "Service" && f.Err(Services) == nil {
		i := slices.IndexFunc(f.Services, func(s corev1.Service) bool {
			return s.Namespace == o.Namespace && s.Name == o.Name && (o.UID == "" || s.UID == o.UID)
		})
		if i < 0 {
			return true
		}
		c := apimeta.FindStatusCondition(f.Services[i].Status.Conditions, service.ConditionReady)
		return c != nil && c.Status == "True" && (often || !eventTime(e).After(c.LastTransitionTime.Time))
	}
	if o.Kind == "Node" && f.Err(Nodes) == nil {
		i := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == o.Name })
		if i < 0 {
			return true
		}
		_, hasVM := f.VM(&f.Nodes[i])
		return often && hasVM && node.Ready(&f.Nodes[i]) && initialised(&f.Nodes[i])
	}
	return false
}

// FromCloud reports whether a cloud controller reported an Event.
func FromCloud(e *corev1.Event) bool {
	return slices.Contains(cloudComponents, e.Source.Component) || slices.Contains(cloudComponents, e.ReportingController)
}

func eventTime(e *corev1.Event) time.Time {
	times := []time.Time{e.CreationTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// OneLine returns a text with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
