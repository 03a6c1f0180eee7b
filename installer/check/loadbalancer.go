// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// RulePlan returns what csccm migrate-rules would do.
func (f *Facts) RulePlan() lbrules.Plan {
	return lbrules.MakePlan(f.Rules, f.Services, f.OddMembers, lbrules.NodeVMs(f.Nodes, f.VMs))
}

// ruleObjects returns the rules about which say has something to say.
func (f *Facts) ruleObjects(say func(it *lbrules.Item) string) []Object {
	var out []Object
	p := f.RulePlan()
	for i := range p.Items {
		it := &p.Items[i]
		if text := say(it); text != "" {
			out = append(out, Object{Kind: "LoadBalancerRule", Name: it.Name, Message: fmt.Sprintf("%s:%d, %s", it.PublicIP, it.Port, text)})
		}
	}
	return out
}

func ruleNames(f *Facts) Finding {
	old := f.ruleObjects(func(it *lbrules.Item) string {
		return when(it.Verdict == lbrules.VerdictRename, "Service %s", it.Service)
	})
	twice := f.ruleObjects(func(it *lbrules.Item) string {
		twice := it.Verdict == lbrules.VerdictDuplicate && (it.Service != "" || it.OurNodes)
		return when(twice || it.Verdict == lbrules.VerdictSurplus, "%s", it.Reason)
	})
	out := Passf("none")
	if len(old) > 0 {
		out = Warnf("%s with an old name", english.Plural(len(old), "rule", ""))
	}
	return out.Unless(twice, "rule", "%s too many for a port").About(old...)
}

func orphans(f *Facts) Finding {
	objects := f.ruleObjects(func(it *lbrules.Item) string {
		orphan := it.Service == "" && it.OurNodes && it.Family != lbrules.FamilyForeign
		return when(orphan, "all its members are nodes of this cluster")
	})
	for _, a := range f.Addresses {
		uid, cluster := a.Tags[plan.TagServiceUID], a.Tags[plan.TagCluster]
		living := slices.ContainsFunc(f.Services, func(s corev1.Service) bool { return string(s.UID) == uid })
		if uid != "" && slices.Contains(f.ClusterIDs, cluster) && !living {
			objects = append(objects, objectf("PublicIpAddress", "", a.Address,
				"tagged as of Service %s of cluster %q, which is not here", a.Tags[plan.TagService], cluster))
		}
	}
	return Passf("none").Unless(objects, "object", "%s without a Service")
}

// services goes by the controller's own plan. Where the cluster is large it takes the controller's word for those that
// are Ready.
func services(f *Facts) Finding {
	next := NextTries(f.Logs)
	var objects []Object
	var remedies []string
	checked, trusted := 0, 0
	for _, s := range Balanced(f.Services) {
		name := s.Namespace + "/" + s.Name
		p := f.Planned[name]
		c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady)
		changed := f.At.Sub(s.CreationTimestamp.Time) < patience || c != nil && f.At.Sub(c.LastTransitionTime.Time) < patience
		if (p == nil || p.Refusal == nil) && !Settled(s) && changed {
			continue // the controller is about to do what is missing
		}
		checked++
		if p == nil && Settled(s) {
			trusted++
		}
		problems := f.problems(s, p)
		if len(problems) == 0 {
			continue
		}
		if p != nil && p.Refusal != nil {
			remedies = append(remedies, name+": "+p.Refusal.Remedy)
		}
		if at := next[name]; at.After(f.At) {
			problems = append(problems, fmt.Sprintf("next try at %s, in %s", at.UTC().Format("15:04:05Z"), at.Sub(f.At).Round(time.Second)))
		}
		objects = append(objects, objectf("Service", s.Namespace, s.Name, "%s", strings.Join(problems, "; ")))
	}
	out := Passf("%s", english.Plural(checked, "Service", ""))
	switch {
	case len(objects) > 0:
		out = Problemf("something is missing or wrong for %d of %s", len(objects), english.Plural(checked, "Service", "")).About(objects...)
		if f.Quota != nil {
			out = out.With("addresses of the account", fmt.Sprintf("%d of %d", f.Quota.Used, f.Quota.Max))
		}
		if len(remedies) == len(objects) {
			return out.Fix("%s", strings.Join(remedies, "; "))
		}
	case f.PlanErr != nil && checked > 0:
		return Unknownf("%s; the controller's plan could not be made: %v", out.Message, f.PlanErr)
	case trusted > 0:
		out.Message += fmt.Sprintf("; %d of them are Ready and were not compared, --only LB compares all", trusted)
	}
	return out
}

// Settled reports whether the controller says that a Service has all that it asks for.
func Settled(s *corev1.Service) bool {
	return apimeta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionReady)
}

// maxActions is how many actions of a Service are named.
const maxActions = 4

// problems says why a Service would not be served, what the controller would do, and why it has no address.
func (f *Facts) problems(s *corev1.Service, p *planner.Service) (out []string) {
	if p != nil {
		switch {
		case p.Refusal != nil:
			return []string{"refused: " + p.Refusal.Message}
		case p.Error != "":
			return []string{"cannot be compared: " + OneLine(p.Error)}
		}
		for i := range p.Actions {
			// A tag only notes whose something is: the Service works without it.
			if a := &p.Actions[i]; !a.Held && !strings.HasPrefix(a.Kind, "tag-") {
				out = append(out, "would "+a.Label())
			}
		}
		out = out[:min(len(out), maxActions)]
	}
	if len(s.Status.LoadBalancer.Ingress) == 0 && (p == nil || len(out) > 0) {
		out = append(out, fmt.Sprintf("has no address since %s", f.At.Sub(s.CreationTimestamp.Time).Round(time.Second)))
		if c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady); c != nil && !Settled(s) {
			out = append(out, c.Reason+": "+OneLine(c.Message))
		}
	}
	return out
}

// NextTries returns when the controller tries a Service again, by namespace/name, as its log says.
func NextTries(logs []Log) map[string]time.Time {
	said, out := map[string]time.Time{}, map[string]time.Time{}
	for i := range logs {
		for j := range logs[i].Lines {
			l := &logs[i].Lines[j]
			name := l.Values["service"]
			wait, err := time.ParseDuration(l.Values["in"])
			if err == nil && name != "" && !l.At.Before(said[name]) {
				said[name], out[name] = l.At, l.At.Add(wait)
			}
		}
	}
	return out
}
