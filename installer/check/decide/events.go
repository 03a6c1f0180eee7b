// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

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

	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
)

const (
	// eventWindow is how far back Events and errors count.
	eventWindow = time.Hour
	// An error in the log is open when it shows often enough recently, and again just now: single failures are tried again
	// and mended without anybody's doing.
	oftenEnough    = 3
	recentlyEnough = 10 * time.Minute
	openFor        = 3 * time.Minute
)

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
	over := f.whatIsOver()
	open := openWarnings(f, over)
	inLog, all := errorClasses(f, over)
	out := Passf("none in the last hour")
	switch {
	case len(open) > 0:
		out = Problemf("%s with an open warning", english.Plural(len(open), "object", "")).About(append(open, inLog...)...)
	case len(inLog) > 0:
		out = Problemf("%s again and again in the log", english.Plural(len(inLog), "error", "")).About(inLog...)
	}
	for i, text := range all {
		out = out.With(fmt.Sprintf("log %d", i+1), text)
	}
	if err := f.Err(Logs); err != nil {
		out = out.With("log", err.Error())
	}
	return out
}

// judgement reports whether what was said about an object at a time is over: the object is gone, it has become well since,
// or it is well and the reason is one of overWhenWell.
type judgement func(o *corev1.ObjectReference, reason string, at time.Time) bool

func (f *Facts) whatIsOver() judgement {
	services, nodes := map[string]*corev1.Service{}, map[string]*corev1.Node{}
	for i := range f.Services {
		services[f.Services[i].Namespace+"/"+f.Services[i].Name] = &f.Services[i]
	}
	for i := range f.Nodes {
		nodes[f.Nodes[i].Name] = &f.Nodes[i]
	}
	ofService := func(o *corev1.ObjectReference, reason string, at time.Time) bool {
		s := services[o.Namespace+"/"+o.Name]
		if s == nil || o.UID != "" && s.UID != "" && o.UID != s.UID {
			return true
		}
		c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady)
		return c != nil && c.Status == "True" && (!at.After(c.LastTransitionTime.Time) || slices.Contains(overWhenWell, reason))
	}
	return func(o *corev1.ObjectReference, reason string, at time.Time) bool {
		switch {
		case o.Kind == "Service" && f.Err(Services) == nil:
			return ofService(o, reason, at)
		case o.Kind == "Node" && f.Err(Nodes) == nil:
			n := nodes[o.Name]
			if n == nil {
				return true
			}
			_, hasVM := f.VM(n)
			return hasVM && node.Ready(n) && initialised(n) && slices.Contains(overWhenWell, reason)
		}
		return false
	}
}

// openWarnings are the objects whose last word from the controllers is a warning.
func openWarnings(f *Facts, over judgement) []Object {
	last := map[string]*corev1.Event{} // by object; of two at once the success
	for i := range f.Events {
		e := &f.Events[i]
		warning := e.Type == corev1.EventTypeWarning && f.At.Sub(eventTime(e)) <= eventWindow && fromCloud(e)
		if !warning && !slices.Contains(successes, e.Reason) || warning && over(&e.InvolvedObject, e.Reason, eventTime(e)) {
			continue
		}
		key := objectKey(e)
		if was := last[key]; was == nil || cmp.Or(eventTime(e).Compare(eventTime(was)), cmp.Compare(was.Type, e.Type)) > 0 {
			last[key] = e
		}
	}
	var objects []Object
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if e := last[key]; !slices.Contains(successes, e.Reason) {
			objects = append(objects, Object{
				Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name,
				Message: fmt.Sprintf("%s %s ago: %s", e.Reason, f.At.Sub(eventTime(e)).Round(time.Second), OneLine(e.Message)),
			})
		}
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
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	t := slices.MaxFunc(times, time.Time.Compare)
	if t.IsZero() {
		t = e.CreationTimestamp.Time
	}
	return t
}

// OneLine returns a text with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// errorClass is one kind of error in the log: the same text at the same place.
type errorClass struct {
	pod           string
	times, recent int
	last          *podlog.Line
}

// errorClasses sorts the errors of the last hour, the most frequent first.
func errorClasses(f *Facts, over judgement) (open []Object, all []string) {
	byKey := map[string]*errorClass{}
	for i := range f.Logs {
		for j := range f.Logs[i].Lines {
			l := &f.Logs[i].Lines[j]
			namespace, name, isService := strings.Cut(l.Get("service"), "/")
			if !l.Error() || f.At.Sub(l.At) > eventWindow ||
				isService && over(&corev1.ObjectReference{Kind: "Service", Namespace: namespace, Name: name}, "", l.At) {
				continue
			}
			c := byKey[l.Source+" "+l.Message]
			if c == nil {
				c = &errorClass{last: l}
				byKey[l.Source+" "+l.Message] = c
			}
			c.times++
			if f.At.Sub(l.At) <= recentlyEnough {
				c.recent++
			}
			if !l.At.Before(c.last.At) {
				c.last, c.pod = l, f.Logs[i].Pod
			}
		}
	}
	keys := slices.Sorted(maps.Keys(byKey))
	slices.SortStableFunc(keys, func(a, b string) int { return byKey[b].times - byKey[a].times })
	for _, k := range keys {
		c := byKey[k]
		text := fmt.Sprintf("%s in the last hour: %s", english.Plural(c.times, "time", ""), c.last.Message)
		if why := c.last.Get("err"); why != "" {
			text += ": " + OneLine(why)
		}
		all = append(all, text)
		if c.recent >= oftenEnough && f.At.Sub(c.last.At) <= openFor {
			open = append(open, Object{Kind: "Pod", Name: c.pod, Message: "logs " + text})
		}
	}
	return open, all
}
