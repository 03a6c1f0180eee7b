// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/service"
)

// eventWindow is how far back Events count.
const eventWindow = time.Hour

// cloudComponents report Events of cloud controllers.
var cloudComponents = []string{"service-controller", "cloud-node-controller", "cloud-node-lifecycle-controller", "cloud-controller-manager", "cloudstack-cloud-controller-manager"}

// successes are the reasons that end what a warning began.
var successes = []string{"EnsuredLoadBalancer", "UpdatedLoadBalancer", "DeletedLoadBalancer", "Synced", string(node.ReasonInService), string(node.ReasonAdopted)}

// overWhenWell are the reasons of warnings about a Node that are over when it is Ready, initialised and one VM: not every
// repair has an Event.
var overWhenWell = []string{
	string(node.ReasonWithoutVM), string(node.ReasonAmbiguousVM), string(node.ReasonInvalidProviderID), string(node.ReasonDeletionRefused),
	string(node.ReasonNotAdopted), string(node.ReasonOutOfService), string(node.ReasonOutOfServiceRefused),
}

// Living reports whether a Service (by namespace/name and, if given, UID) or a Node exists. What was said about one that
// is gone is over.
type Living struct {
	services map[string]string // UID by namespace/name; nil = not known
	nodes    map[string]bool   // nil = not known; true for those that are well
}

// LivingOf returns what exists, as far as it could be read.
func LivingOf(services []corev1.Service, servicesErr error, nodes []corev1.Node, nodesErr error, vms *inventory.VMSnapshot) Living {
	var l Living
	if servicesErr == nil {
		l.services = map[string]string{}
		for i := range services {
			l.services[services[i].Namespace+"/"+services[i].Name] = string(services[i].UID)
		}
	}
	if nodesErr == nil {
		l.nodes = map[string]bool{}
		for i := range nodes {
			n := &nodes[i]
			l.nodes[n.Name] = vms != nil && hasVM(vms, n) && node.Ready(n) && initialised(n)
		}
	}
	return l
}

func (l *Living) service(key, uid string) bool {
	is, there := l.services[key]
	return l.services == nil || there && (uid == "" || is == "" || is == uid)
}

func (l *Living) object(o *corev1.ObjectReference) bool {
	switch o.Kind {
	case "Service":
		return l.service(o.Namespace+"/"+o.Name, string(o.UID))
	case "Node":
		_, there := l.nodes[o.Name]
		return l.nodes == nil || there
	}
	return true
}

// over reports whether the state of a Node shows that what an Event says is no longer so.
func (l *Living) over(e *corev1.Event) bool {
	return e.InvolvedObject.Kind == "Node" && l.nodes[e.InvolvedObject.Name] && slices.Contains(overWhenWell, e.Reason)
}

// Errors decides CCM-005.
func Errors(events []corev1.Event, logs []Log, there Living, now time.Time) Finding {
	events = slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool { return !there.object(&e.InvolvedObject) || there.over(&e) })
	open := openWarnings(events, now)
	inLog, all := errorClasses(logs, there, now)
	f := Passf("none in the last hour")
	switch {
	case len(open) > 0:
		f = Problemf("%s with an open warning", plural.Count(len(open), "object")).About(append(open, inLog...)...)
	case len(inLog) > 0:
		f = Problemf("%s again and again in the log", plural.Count(len(inLog), "error")).About(inLog...)
	}
	for i, text := range all {
		f = f.With(fmt.Sprintf("log %d", i+1), text)
	}
	return f
}

// openWarnings are the objects whose last word from the controllers is a warning.
func openWarnings(events []corev1.Event, now time.Time) []Object {
	success := map[string]time.Time{} // last, by object
	for i := range events {
		e := &events[i]
		if slices.Contains(successes, e.Reason) && eventTime(e).After(success[objectKey(e)]) {
			success[objectKey(e)] = eventTime(e)
		}
	}
	latest := map[string]*corev1.Event{}
	for i := range events {
		e := &events[i]
		at := eventTime(e)
		if e.Type != corev1.EventTypeWarning || now.Sub(at) > eventWindow || !fromCloud(e) || !success[objectKey(e)].Before(at) {
			continue
		}
		if known := latest[objectKey(e)]; known == nil || at.After(eventTime(known)) {
			latest[objectKey(e)] = e
		}
	}
	var objects []Object
	for _, key := range slices.Sorted(maps.Keys(latest)) {
		e := latest[key]
		objects = append(objects, Object{
			Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name,
			Message: fmt.Sprintf("%s %s ago: %s", e.Reason, now.Sub(eventTime(e)).Round(time.Second), OneLine(e.Message)),
		})
	}
	return objects
}

func fromCloud(e *corev1.Event) bool {
	return slices.Contains(cloudComponents, e.Source.Component) || slices.Contains(cloudComponents, e.ReportingController)
}

func objectKey(e *corev1.Event) string {
	o := &e.InvolvedObject
	if o.Kind == "Node" { // components give it different UIDs
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name + "/" + string(o.UID)
}

func eventTime(e *corev1.Event) time.Time {
	t := e.LastTimestamp.Time
	if e.EventTime.After(t) {
		t = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(t) {
		t = e.Series.LastObservedTime.Time
	}
	if t.IsZero() {
		t = e.CreationTimestamp.Time
	}
	return t
}

// OneLine returns a text with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// errorClass is one kind of error in the log: the same text at the same place.
type errorClass struct {
	pod, message string
	times        int
	last         podlog.Line
}

// openErrors is how often a class must show within recentlyEnough to be reported: single failures
// are tried again and mended without anybody's doing.
const openErrors = 3

// openFor is how long after its last time an error counts as open.
const openFor = 3 * time.Minute

// errorClasses sorts the errors of the last hour, the most frequent first.
func errorClasses(logs []Log, there Living, now time.Time) (open []Object, all []string) {
	byKey := map[string]*errorClass{}
	recent := map[string]int{}
	for i := range logs {
		for j := range logs[i].Lines {
			l := &logs[i].Lines[j]
			if !l.Error() || now.Sub(l.At) > eventWindow {
				continue
			}
			if service := l.Get("service"); strings.Contains(service, "/") && !there.service(service, "") {
				continue
			}
			key := l.Source + " " + l.Message
			c := byKey[key]
			if c == nil {
				c = &errorClass{pod: logs[i].Pod, message: l.Message}
				byKey[key] = c
			}
			c.times++
			if !l.At.Before(c.last.At) {
				c.last, c.pod = *l, logs[i].Pod
			}
			if now.Sub(l.At) <= recentlyEnough {
				recent[key]++
			}
		}
	}
	keys := slices.Sorted(maps.Keys(byKey))
	slices.SortStableFunc(keys, func(a, b string) int { return byKey[b].times - byKey[a].times })
	for _, k := range keys {
		c := byKey[k]
		text := fmt.Sprintf("%s in the last hour: %s", plural.Count(c.times, "time"), c.message)
		if why := c.last.Get("err"); why != "" {
			text += ": " + OneLine(why)
		}
		all = append(all, text)
		if recent[k] >= openErrors && now.Sub(c.last.At) <= openFor {
			open = append(open, Object{Kind: "Pod", Name: c.pod, Message: "logs " + text})
		}
	}
	return open, all
}

// repairs are the reasons of warnings about changes that the controller has reverted itself.
var repairs = []string{string(plan.ReasonDriftRepaired), string(plan.ReasonAddressLost)}

// Unsolved leaves out what was said about Services before their load balancers became ready. Not every success has an
// Event: the controller's own repetitions and repairs show it in the condition alone.
func Unsolved(events []corev1.Event, logs []Log, services []corev1.Service) ([]corev1.Event, []Log) {
	ready := map[string]time.Time{} // since when, by namespace/name
	for i := range services {
		c := apimeta.FindStatusCondition(services[i].Status.Conditions, service.ConditionReady)
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
		return o.Kind == "Service" && e.Type == corev1.EventTypeWarning && (solved(key, eventTime(&e)) || is && slices.Contains(repairs, e.Reason))
	})
	logs = slices.Clone(logs)
	for i := range logs {
		logs[i].Lines = slices.DeleteFunc(slices.Clone(logs[i].Lines), func(l podlog.Line) bool { return solved(l.Get("service"), l.At) })
	}
	return events, logs
}

// NextTries returns when the controller tries a Service again, by namespace/name, as its log says.
func NextTries(logs []Log) map[string]time.Time {
	said := map[string]time.Time{}
	out := map[string]time.Time{}
	for i := range logs {
		for j := range logs[i].Lines {
			l := &logs[i].Lines[j]
			service, wait := nextTry(l)
			if service == "" || l.At.Before(said[service]) {
				continue
			}
			said[service] = l.At
			out[service] = l.At.Add(wait)
		}
	}
	return out
}

// nextTry reads one line; service is "" where it is about something else.
func nextTry(l *podlog.Line) (service string, wait time.Duration) {
	service = l.Get("service")
	wait, err := time.ParseDuration(l.Get("in"))
	if err != nil || service == "" {
		return "", 0
	}
	return service, wait
}
