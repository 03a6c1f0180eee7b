// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/provider"
)

// tellOfTheDone are reasons of warnings about what the controller has put right itself.
var tellOfTheDone = []string{string(loadbalancer.ReasonDriftRepaired), string(loadbalancer.ReasonAddressLost)}

// Unsolved leaves out what was said about Services before their load balancers became ready. Not every success has an
// Event: the controller's own repetitions and repairs show it in the condition alone.
func Unsolved(events []corev1.Event, logs []Log, services []corev1.Service) ([]corev1.Event, []Log) {
	ready := map[string]time.Time{} // since when, by namespace/name
	for i := range services {
		c := apimeta.FindStatusCondition(services[i].Status.Conditions, provider.ConditionReady)
		if c != nil && c.Status == "True" {
			ready[services[i].Namespace+"/"+services[i].Name] = c.LastTransitionTime.Time
		}
	}
	solved := func(service string, at time.Time) bool {
		since, is := ready[service]
		return is && !at.After(since)
	}
	events = slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool {
		o := &e.InvolvedObject
		key := o.Namespace + "/" + o.Name
		_, is := ready[key]
		return o.Kind == "Service" && e.Type == corev1.EventTypeWarning && (solved(key, eventTime(&e)) || is && slices.Contains(tellOfTheDone, e.Reason))
	})
	logs = slices.Clone(logs)
	for i := range logs {
		logs[i].Lines = slices.DeleteFunc(slices.Clone(logs[i].Lines), func(l podlog.Line) bool { return solved(l.Get("service"), l.At) })
	}
	return events, logs
}
