// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

func loadBalancerChecks() []Check {
	balance := []Source{Nodes, VMs, Services, Balancers}
	return []Check{
		{
			Code: "LB-001", Title: "Services have what they ask for", Severity: SeverityError, Phase: Installed, Needs: needVMs, Reads: append(slices.Clone(balance), Plans), Tries: []Source{Forwards, Events, Logs}, Judge: services,
			What:   "`csccm plan` shows nothing to do for each Service of type LoadBalancer: address, rules, members, firewall and ACLs, port forwardings are as planned. With more than 16 rules the check plans Services that are not Ready and a sample of the others, and compares only the rules of the rest; with `--only LB` it plans all. New and changed Services have two minutes, refused ones have not.",
			Why:    "Missing rules lose traffic, and refused Services are not served.",
			Remedy: "`csccm plan` shows it all; the controller tries again at the time that is named, or within ten minutes, and repairs what has changed within its drift period; to have it try now: `" + Restart + "`",
		},
		{
			Code: "LB-002", Title: "No rules with old names", Severity: SeverityWarning, Needs: needVMs, Reads: balance, Judge: oldNames,
			What:   "No rule of this cluster has a name of an older provider: LB-PORT without a protocol, or K8s_svc_...",
			Why:    "The controller identifies its rules by name: it would create a second rule for the port, which CloudStack refuses.",
			Remedy: "`csccm migrate-rules` shows what it would do, and renames in place, without loss of traffic",
		},
		{
			Code: "LB-003", Title: "No rules without a Service", Severity: SeverityWarning, Needs: needVMs, Reads: append(slices.Clone(balance), Addresses, ClusterIDs), Judge: orphans,
			What:   "Every rule whose members are all nodes of this cluster, and every address with this cluster's tags, has a Service.",
			Why:    "Orphans use addresses, cost money, and keep ports of deleted Services open.",
			Remedy: "find out who uses them: a rule that still serves can stay; where nobody does, `csccm migrate-rules --delete-orphans` deletes the rules after it has shown them; addresses without rules are released in CloudStack",
		},
		{
			Code: "LB-004", Title: "No two rules for one port", Severity: SeverityError, Needs: needVMs, Reads: balance, Judge: duplicates,
			What:   "No port of a load balancer has two rules, for example under an old and a new name.",
			Why:    "Two controllers, or an upgrade without a migration, made them; traffic reaches only one of them.",
			Remedy: "run `csccm migrate-rules`: it keeps the rule whose address the Service shows and deletes the surplus one; of two that it cannot choose between it says why",
		},
	}
}

// Settled reports whether a Service looks as it should without its plan: the controller calls it Ready.
func Settled(s *corev1.Service, mode string) bool {
	return apimeta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionReady) && !MayForward(s, mode)
}

// MayForward reports whether a Service may have ports that are forwarded: whether it has depends on its network, too.
func MayForward(s *corev1.Service, mode string) bool {
	if !balanced(s) {
		return false
	}
	spec, err := annotation.Parse(s)
	spec.Mode = cmp.Or(spec.Mode, mode)
	return err == nil && plan.Facts{Service: loadbalancer.ServiceOf(s), Spec: spec}.Forwards()
}

// balanced reports whether the controller serves a Service.
func balanced(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil
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

func oldNames(f *Facts) Finding {
	return Passf("none").Unless(f.ruleObjects(func(it *lbrules.Item) string {
		switch {
		case it.Verdict == lbrules.VerdictRename:
			return "Service " + it.Service
		case it.Verdict == lbrules.VerdictOrphan && it.Family == lbrules.FamilyLegacy:
			return "its Service is gone, its members are nodes of this cluster"
		}
		return ""
	}), "rule", "%s")
}

func duplicates(f *Facts) Finding {
	return Passf("none").Unless(f.ruleObjects(func(it *lbrules.Item) string {
		if it.Verdict == lbrules.VerdictSurplus || it.Verdict == lbrules.VerdictDuplicate && (it.Service != "" || it.OurNodes) {
			return it.Reason
		}
		return ""
	}), "rule", "%s too many for a port")
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
			objects = append(objects, Object{Kind: "PublicIpAddress", Name: a.Address, Message: fmt.Sprintf(
				"tagged as of Service %s of cluster %q, which is not here", a.Tags[plan.TagService], cluster)})
		}
	}
	return Passf("none").Unless(objects, "object", "%s without a Service")
}

// services goes by the controller's own plan, and for Services that are in no sample by the list of rules.
func services(f *Facts) Finding {
	rules, next := f.rulesByPort(), NextTries(f.Logs)
	var objects []Object
	var remedies []string
	checked, pending := 0, 0
	for i := range f.Services {
		s := &f.Services[i]
		name := s.Namespace + "/" + s.Name
		planned, known := f.Planned[name]
		switch {
		case !balanced(s):
			continue
		case planned.Refused == "" && f.working(s):
			pending++
			continue
		}
		checked++
		if planned.Remedy != "" {
			remedies = append(remedies, name+": "+planned.Remedy)
		}
		problems := planned.problems()
		if !known || planned.Refused == "" && planned.Err == nil && len(problems) > 0 && len(s.Status.LoadBalancer.Ingress) == 0 {
			problems = append(f.compare(s, rules), problems...)
		}
		if len(problems) == 0 {
			continue
		}
		if at := next[name]; at.After(f.At) {
			problems = append(problems, fmt.Sprintf("next try at %s, in %s", at.UTC().Format("15:04:05Z"), at.Sub(f.At).Round(time.Second)))
		}
		objects = append(objects, Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: strings.Join(problems, "; ")})
	}
	text := english.Plural(checked, "Service", "")
	switch {
	case len(objects) > 0:
		out := Problemf("something is missing or wrong for %d of %s", len(objects), text).About(objects...)
		if len(remedies) == len(objects) {
			out = out.Fix("%s", strings.Join(remedies, "; "))
		}
		return out
	case checked == 0 && pending == 0:
		return Passf("no Services of type LoadBalancer")
	}
	if pending > 0 {
		text += fmt.Sprintf(", %d more being set up", pending)
	}
	if f.Sampled {
		text += fmt.Sprintf("; compared with the controller's plan are %d of them, --only LB compares all", len(f.Planned))
	}
	out := Passf("%s", text)
	if f.PlanErr != nil {
		out = out.With("plan", "not made, only rules were compared: "+f.PlanErr.Error())
	}
	return out
}

// working reports whether the controller is about to do what is missing: a Service is new, or changed just now.
func (f *Facts) working(s *corev1.Service) bool {
	c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady)
	if c != nil && c.Status == metav1.ConditionTrue {
		return false
	}
	return f.At.Sub(s.CreationTimestamp.Time) < patience || c != nil && f.At.Sub(c.LastTransitionTime.Time) < patience
}

// maxActions is how many actions of a Service are named.
const maxActions = 4

// problems says why a Service would not be served, or what the controller would do.
func (p *Planned) problems() []string {
	n := len(p.Actions)
	switch {
	case p.Refused != "":
		return []string{"refused: " + p.Refused}
	case p.Err != nil:
		return []string{"cannot be compared: " + OneLine(p.Err.Error())}
	case n <= maxActions:
		return p.Actions
	}
	return append(slices.Clone(p.Actions[:maxActions]), fmt.Sprintf("%d more actions", n-maxActions))
}

// rulesByPort returns the rules by Service and port, those with names of older providers too: they serve all the same.
func (f *Facts) rulesByPort() map[string][]cloudstack.LoadBalancerRule {
	whose := map[string]string{}
	for _, it := range f.RulePlan().Items {
		whose[it.RuleID] = it.Service
	}
	out := map[string][]cloudstack.LoadBalancerRule{}
	for _, r := range f.Rules {
		if of := whose[r.ID]; of != "" {
			key := fmt.Sprintf("%s:%d", of, r.PublicPort)
			out[key] = append(out[key], r)
		}
	}
	return out
}

// compare compares a Service with the list of rules.
func (f *Facts) compare(s *corev1.Service, rules map[string][]cloudstack.LoadBalancerRule) []string {
	var ips []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		ips = append(ips, cmp.Or(i.IP, i.Hostname))
	}
	if len(ips) == 0 {
		text := fmt.Sprintf("has no address since %s", f.At.Sub(s.CreationTimestamp.Time).Round(time.Second))
		if why := f.lastWarning(s); why != "" {
			text += ": " + why
		}
		return []string{text}
	}
	var out []string
	for _, p := range s.Spec.Ports {
		found := rules[fmt.Sprintf("%s/%s:%d", s.Namespace, s.Name, p.Port)]
		switch {
		case p.NodePort == 0 || p.Protocol == corev1.ProtocolUDP || len(found) > 1: // the controller says it, or LB-004
		case len(found) == 0:
			out = append(out, fmt.Sprintf("port %d has no rule", p.Port))
		case found[0].PublicIP != "" && s.Status.LoadBalancer.Ingress[0].IP != "" && !slices.Contains(ips, found[0].PublicIP):
			out = append(out, fmt.Sprintf("port %d: its rule is on %s, the Service shows %s", p.Port, found[0].PublicIP, strings.Join(ips, ", ")))
		case found[0].PrivatePort != int(p.NodePort):
			out = append(out, fmt.Sprintf("port %d: its rule goes to port %d, the node port is %d", p.Port, found[0].PrivatePort, p.NodePort))
		}
	}
	return out
}

// lastWarning returns why a Service has no load balancer: its condition says so, or the last Event that is not about a node.
func (f *Facts) lastWarning(s *corev1.Service) string {
	if c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		return c.Reason + ": " + OneLine(c.Message)
	}
	var last corev1.Event
	for _, e := range f.Events {
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.UID == s.UID && e.InvolvedObject.Kind == "Service" && !strings.HasPrefix(e.Reason, "Node") &&
			eventTime(&e).After(eventTime(&last)) {
			last = e
		}
	}
	return OneLine(last.Message)
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
