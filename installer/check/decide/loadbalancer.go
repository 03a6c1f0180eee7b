// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/service"
)

// BalanceFacts is what the checks of load balancers are decided by.
type BalanceFacts struct {
	Nodes     []corev1.Node
	VMs       *inventory.VMSnapshot
	Services  []corev1.Service
	Balancers Balancers
	Plans     Plans
	Events    []corev1.Event
	Next      map[string]time.Time // when the controller tries a Service again, by namespace/name
	Now       time.Time
}

// Balancers are the public load balancer rules that providers for Kubernetes name.
type Balancers struct {
	Rules   []cloudstack.LoadBalancerRule
	Members map[string][]cloudstack.LoadBalancerMember // by rule id, of those whose names do not say whose they are
}

// Plans are what the controller would do for Services, as csccm plan says, by namespace/name.
type Plans struct {
	ByName map[string]Planned
	// Sampled: Services that look as they should are not all among them.
	Sampled bool
	Err     error // none could be made
}

// Planned is the plan of one Service.
type Planned struct {
	Refused string // why it would not be served; "" if it would
	Remedy  string // of the refusal
	Actions []string
	Err     error // why there is no plan
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

// Plan returns what csccm migrate-rules would do.
func (in *BalanceFacts) Plan() lbrules.Plan {
	inv := lbrules.Inventory{Services: in.Services, NodeVMs: map[string]bool{}}
	for i := range in.Nodes {
		if vm, err := node.Match(in.VMs, &in.Nodes[i]); err == nil {
			inv.NodeVMs[vm.ID] = true
		}
	}
	for _, r := range in.Balancers.Rules {
		inv.Rules = append(inv.Rules, lbrules.Rule{LoadBalancerRule: r, Members: in.Balancers.Members[r.ID]})
	}
	return lbrules.MakePlan(inv, lbrules.Selection{})
}

func ruleObject(i *lbrules.Item, message string) Object {
	return Object{Kind: "LoadBalancerRule", Name: i.Name, Message: fmt.Sprintf("%s:%d, %s", i.PublicIP, i.Port, message)}
}

// OldNames decides LB-002.
func OldNames(p lbrules.Plan) Finding {
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		switch {
		case it.Verdict == lbrules.VerdictRename:
			objects = append(objects, ruleObject(it, "Service "+it.Service))
		case it.Verdict == lbrules.VerdictOrphan && it.Family == lbrules.FamilyLegacy:
			objects = append(objects, ruleObject(it, "its Service is gone, its members are nodes of this cluster"))
		}
	}
	return Passf("none").Unless(objects, "rule", "%s")
}

// Duplicates decides LB-004.
func Duplicates(p lbrules.Plan) Finding {
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == lbrules.VerdictSurplus || it.Verdict == lbrules.VerdictDuplicate && (it.Service != "" || it.OurNodes) {
			objects = append(objects, ruleObject(it, it.Reason))
		}
	}
	return Passf("none").Unless(objects, "rule", "%s too many for a port")
}

// Orphans decides LB-003.
func Orphans(in BalanceFacts, addresses []cloudstack.PublicIP, clusterIDs []string) Finding {
	p := in.Plan()
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		if it.Service == "" && it.OurNodes && it.Family != lbrules.FamilyForeign {
			objects = append(objects, ruleObject(it, "all its members are nodes of this cluster"))
		}
	}
	living := map[string]bool{}
	for i := range in.Services {
		living[string(in.Services[i].UID)] = true
	}
	for i := range addresses {
		a := &addresses[i]
		uid := a.Tags[plan.TagServiceUID]
		if cluster := a.Tags[plan.TagCluster]; uid != "" && slices.Contains(clusterIDs, cluster) && !living[uid] {
			objects = append(objects, Object{Kind: "PublicIpAddress", Name: a.Address, Message: fmt.Sprintf(
				"tagged as of Service %s of cluster %q, which is not here", a.Tags[plan.TagService], cluster)})
		}
	}
	return Passf("none").Unless(objects, "object", "%s without a Service")
}

// Services decides LB-001: by the controller's own plan, and for Services that are in no sample by the list of rules.
func Services(in BalanceFacts) Finding {
	// Rules by Service and port, those with names of older providers too: they serve all the same.
	p := in.Plan()
	whose := map[string]string{}
	for i := range p.Items {
		whose[p.Items[i].RuleID] = p.Items[i].Service
	}
	rules := map[string][]cloudstack.LoadBalancerRule{}
	for _, r := range in.Balancers.Rules {
		if of := whose[r.ID]; of != "" {
			key := fmt.Sprintf("%s:%d", of, r.PublicPort)
			rules[key] = append(rules[key], r)
		}
	}
	var objects []Object
	var remedies []string
	checked, pending := 0, 0
	for i := range in.Services {
		s := &in.Services[i]
		if !balanced(s) {
			continue
		}
		name := s.Namespace + "/" + s.Name
		planned, known := in.Plans.ByName[name]
		var problems []string
		switch {
		case known && planned.Refused != "":
			problems = append(problems, "refused: "+planned.Refused)
			if planned.Remedy != "" {
				remedies = append(remedies, name+": "+planned.Remedy)
			}
		case in.working(s):
			pending++
			continue
		case known && planned.Err != nil:
			problems = append(problems, "cannot be compared: "+OneLine(planned.Err.Error()))
		case known:
			problems = planned.actions()
			if len(problems) > 0 && len(s.Status.LoadBalancer.Ingress) == 0 {
				problems = append(in.problems(s, rules), problems...)
			}
		default:
			problems = in.problems(s, rules)
		}
		checked++
		if len(problems) > 0 {
			if at := in.Next[name]; at.After(in.Now) {
				problems = append(problems, fmt.Sprintf("next try at %s, in %s", at.UTC().Format("15:04:05Z"), at.Sub(in.Now).Round(time.Second)))
			}
			objects = append(objects, Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: strings.Join(problems, "; ")})
		}
	}
	text := plural.Count(checked, "Service")
	switch {
	case len(objects) > 0:
		f := Problemf("something is missing or wrong for %d of %s", len(objects), text).About(objects...)
		if len(remedies) == len(objects) {
			f = f.Fix("%s", strings.Join(remedies, "; "))
		}
		return f
	case checked == 0 && pending == 0:
		return Passf("no Services of type LoadBalancer")
	}
	if pending > 0 {
		text += fmt.Sprintf(", %d more being set up", pending)
	}
	if in.Plans.Sampled {
		text += fmt.Sprintf("; compared with the controller's plan are %d of them, --only LB compares all", len(in.Plans.ByName))
	}
	f := Passf("%s", text)
	if in.Plans.Err != nil {
		f = f.With("plan", "not made, only rules were compared: "+in.Plans.Err.Error())
	}
	return f
}

// working reports whether the controller is about to do what is missing: a Service is new, or changed just now.
func (in *BalanceFacts) working(s *corev1.Service) bool {
	if in.Now.Sub(s.CreationTimestamp.Time) < patience && !apimeta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionReady) {
		return true
	}
	c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady)
	return c != nil && c.Status != metav1.ConditionTrue && in.Now.Sub(c.LastTransitionTime.Time) < patience
}

// maxActions is how many actions of a Service are named.
const maxActions = 4

// actions says what the controller would do.
func (p *Planned) actions() []string {
	if len(p.Actions) <= maxActions {
		return p.Actions
	}
	return append(slices.Clone(p.Actions[:maxActions]), fmt.Sprintf("%d more actions", len(p.Actions)-maxActions))
}

// problems compares a Service with the list of rules.
func (in *BalanceFacts) problems(s *corev1.Service, rules map[string][]cloudstack.LoadBalancerRule) []string {
	var ips []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		ips = append(ips, cmp.Or(i.IP, i.Hostname))
	}
	if len(ips) == 0 {
		text := fmt.Sprintf("has no address since %s", in.Now.Sub(s.CreationTimestamp.Time).Round(time.Second))
		if why := lastWarning(in.Events, s); why != "" {
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
		case found[0].PublicIP != "" && len(s.Status.LoadBalancer.Ingress[0].IP) > 0 && !slices.Contains(ips, found[0].PublicIP):
			out = append(out, fmt.Sprintf("port %d: its rule is on %s, the Service shows %s", p.Port, found[0].PublicIP, strings.Join(ips, ", ")))
		case found[0].PrivatePort != int(p.NodePort):
			out = append(out, fmt.Sprintf("port %d: its rule goes to port %d, the node port is %d", p.Port, found[0].PrivatePort, p.NodePort))
		}
	}
	return out
}

// lastWarning returns why a Service has no load balancer: its condition says so, or the last Event that is not about a node.
func lastWarning(events []corev1.Event, s *corev1.Service) string {
	if c := apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		return c.Reason + ": " + OneLine(c.Message)
	}
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.UID == s.UID && e.InvolvedObject.Kind == "Service" && !strings.HasPrefix(e.Reason, "Node") &&
			(last == nil || eventTime(e).After(eventTime(last))) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return OneLine(last.Message)
}
