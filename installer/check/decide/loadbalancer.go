// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/csccm/csccm/installer/check/tenants"
	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

func loadBalancerChecks() []Check {
	balance := []Source{Nodes, VMs, Services, Balancers}
	return []Check{
		{
			Code: "LB-001", Title: "Services have what they ask for", Severity: SeverityError, Phase: Installed, Needs: needVMs, Reads: append(slices.Clone(balance), Plans), Tries: []Source{Forwards, Logs}, Judge: services,
			What:   "`csccm plan` shows nothing to do for each Service of type LoadBalancer: address, rules, members, firewall and ACLs, port forwardings are as planned. With more than 16 rules and VMs only Services that are not Ready are compared; with `--only LB` all are. New and changed Services count after two minutes, refused ones at once.",
			Why:    "Missing rules lose traffic, and refused Services are not served.",
			Remedy: "`csccm plan` shows it all; the controller tries again at the time that is named, or within ten minutes, and repairs what has changed within its drift period; to have it try now: `" + Restart + "`",
		},
		{
			Code: "LB-002", Title: "One rule for a port, with its current name", Severity: SeverityError, Needs: needVMs, Reads: balance, Judge: ruleNames,
			What:   "No port of a load balancer has two rules, and no rule of this cluster has a name of an older provider: LB-PORT without a protocol, or K8s_svc_...; such a name alone is a warning.",
			Why:    "The controller identifies its rules by name: it would create a second rule for the port, which CloudStack refuses. Of two rules traffic reaches only one.",
			Remedy: "`csccm migrate-rules` shows what it would do: it renames in place, without loss of traffic, keeps the rule whose address the Service shows and deletes the surplus one; if it cannot choose one, it says why",
		},
		{
			Code: "LB-003", Title: "No rules without a Service", Severity: SeverityWarning, Needs: needVMs, Reads: append(slices.Clone(balance), Addresses, ClusterIDs), Judge: orphans,
			What:   "Every rule whose members are all nodes of this cluster, and every address with this cluster's tags, has a Service.",
			Why:    "Orphans use addresses, cost money, and keep ports of deleted Services open.",
			Remedy: "find out who uses them: a rule that still serves can stay; where nobody does, `csccm migrate-rules --delete-orphans` deletes the rules after it has shown them; addresses without rules are released in CloudStack",
		},
	}
}

// RulePlan returns what csccm migrate-rules would do.
func (f *Facts) RulePlan() lbrules.Plan {
	inv := lbrules.Inventory{Services: f.Services, NodeVMs: map[string]bool{}}
	for i := range f.Nodes {
		if vm, ok := f.VM(&f.Nodes[i]); ok {
			inv.NodeVMs[vm.ID] = true
		}
	}
	for _, r := range f.Rules {
		inv.Rules = append(inv.Rules, lbrules.Rule{LoadBalancerRule: r, Members: f.OddMembers[r.ID]})
	}
	return lbrules.MakePlan(inv, lbrules.Selection{})
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
		switch {
		case it.Verdict == lbrules.VerdictRename:
			return "Service " + it.Service
		case it.Verdict == lbrules.VerdictOrphan && it.Family == lbrules.FamilyLegacy:
			return "its Service is gone, its members are nodes of this cluster"
		}
		return ""
	})
	twice := f.ruleObjects(func(it *lbrules.Item) string {
		if it.Verdict == lbrules.VerdictSurplus || it.Verdict == lbrules.VerdictDuplicate && (it.Service != "" || it.OurNodes) {
			return it.Reason
		}
		return ""
	})
	if len(twice) == 0 && len(old) > 0 {
		return Warnf("%s with an old name", english.Plural(len(old), "rule", "")).About(old...)
	}
	return Passf("none").Unless(twice, "rule", "%s too many for a port").About(old...)
}

func orphans(f *Facts) Finding {
	objects := f.ruleObjects(func(it *lbrules.Item) string {
		if it.Service == "" && it.OurNodes && it.Family != lbrules.FamilyForeign {
			return "all its members are nodes of this cluster"
		}
		return ""
	})
	living := map[string]bool{}
	for i := range f.Services {
		living[string(f.Services[i].UID)] = true
	}
	for i := range f.Addresses {
		a := &f.Addresses[i]
		uid, cluster := a.Tags[plan.TagServiceUID], a.Tags[plan.TagCluster]
		if uid != "" && slices.Contains(f.ClusterIDs, cluster) && !living[uid] {
			objects = append(objects, objectf("PublicIpAddress", "", a.Address,
				"tagged as of Service %s of cluster %q, which is not here", a.Tags[plan.TagService], cluster))
		}
	}
	return Passf("none").Unless(objects, "object", "%s without a Service")
}

// services goes by the controller's own plan. Where the cluster is large it takes the controller's word for those that are Ready.
func services(f *Facts) Finding {
	next := NextTries(f.Logs)
	var objects []Object
	var remedies []string
	checked, pending, trusted := 0, 0, 0
	for _, s := range tenants.Balanced(f.Services) {
		name := s.Namespace + "/" + s.Name
		p := f.Planned[name]
		if (p == nil || p.Refusal == nil) && f.working(s) {
			pending++
			continue
		}
		checked++
		if p == nil && Settled(s) {
			trusted++
		}
		if p != nil && p.Refusal != nil && p.Refusal.Remedy != "" {
			remedies = append(remedies, name+": "+p.Refusal.Remedy)
		}
		problems := f.problems(s, p)
		if len(problems) == 0 {
			continue
		}
		if at := next[name]; at.After(f.At) {
			problems = append(problems, fmt.Sprintf("next try at %s, in %s", at.UTC().Format("15:04:05Z"), at.Sub(f.At).Round(time.Second)))
		}
		objects = append(objects, Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: strings.Join(problems, "; ")})
	}
	text := english.Plural(checked, "Service", "")
	if pending > 0 {
		text += fmt.Sprintf(", %d more being set up", pending)
	}
	switch {
	case len(objects) > 0:
		out := Problemf("something is missing or wrong for %d of %s", len(objects), english.Plural(checked, "Service", "")).About(objects...)
		if len(remedies) == len(objects) {
			out = out.Fix("%s", strings.Join(remedies, "; "))
		}
		return out
	case checked == 0 && pending == 0:
		return Passf("no Services of type LoadBalancer")
	case f.PlanErr != nil:
		return Unknownf("%s; the controller's plan could not be made: %v", text, f.PlanErr)
	case trusted > 0:
		text += fmt.Sprintf("; %d of them are Ready and were not compared, --only LB compares all", trusted)
	}
	return Passf("%s", text)
}

// Settled reports whether the controller says that a Service has all that it asks for.
func Settled(s *corev1.Service) bool {
	return apimeta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionReady)
}

// working reports whether the controller is about to do what is missing: a Service is new, or changed just now.
func (f *Facts) working(s *corev1.Service) bool {
	c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady)
	return !Settled(s) && (f.At.Sub(s.CreationTimestamp.Time) < patience || c != nil && f.At.Sub(c.LastTransitionTime.Time) < patience)
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
		if more := len(out) - maxActions; more > 0 {
			out = append(out[:maxActions], fmt.Sprintf("%d more actions", more))
		}
	}
	if len(s.Status.LoadBalancer.Ingress) == 0 && (p == nil || len(out) > 0) {
		text := fmt.Sprintf("has no address since %s", f.At.Sub(s.CreationTimestamp.Time).Round(time.Second))
		if c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady); c != nil && !Settled(s) {
			text += ": " + c.Reason + ": " + OneLine(c.Message)
		}
		out = slices.Insert(out, 0, text)
	}
	return out
}

// NextTries returns when the controller tries a Service again, by namespace/name, as its log says.
func NextTries(logs []Log) map[string]time.Time {
	said, out := map[string]time.Time{}, map[string]time.Time{}
	for i := range logs {
		for j := range logs[i].Lines {
			l := &logs[i].Lines[j]
			name := l.Get("service")
			wait, err := time.ParseDuration(l.Get("in"))
			if err == nil && name != "" && !l.At.Before(said[name]) {
				said[name], out[name] = l.At, l.At.Add(wait)
			}
		}
	}
	return out
}
