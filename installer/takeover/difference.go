// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/family"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Kind is the kind of a difference.
type Kind string

// Kinds of differences. Those down to KindRefused usually need consent.
const (
	KindProtocol  Kind = "protocol"
	KindAlgorithm Kind = "algorithm"
	KindMode      Kind = "mode"   // a port leaves the load balancer and is forwarded to a node
	KindRanges    Kind = "ranges" // source addresses that may connect
	// KindGap means that a rule is deleted and created again: new connections fail for about a second.
	KindGap         Kind = "gap"
	KindAddress     Kind = "address"      // a public address is added or released
	KindPortRemoved Kind = "port-removed" // a rule for a port that the Service does not have is deleted
	KindRefused     Kind = "refused"      // csccm's controller refuses the Service until the Service is changed
	KindWarning     Kind = "warning"      // a warning of the controller
	KindIPMode      Kind = "ip-mode"      // the ipMode in the status of the Service changes
)

// Difference is one difference between the current state and what csccm's controller would make of it.
type Difference struct {
	Kind    Kind   `json:"kind"`
	Port    int    `json:"port,omitempty"`
	Text    string `json:"text"`
	Consent bool   `json:"consent"`       // users of the Service would notice it, so the operator must agree first
	Pin     *Pin   `json:"pin,omitempty"` // annotation that keeps the current state; nil if none can
}

// Pin is an annotation that keeps the current state of a Service.
type Pin struct {
	Annotation string `json:"annotation"`
	Value      string `json:"value"`
}

// differences returns what csccm's controller would change for a Service. Its pins are candidates, which the caller
// must test.
func differences(svc *corev1.Service, p *loadbalancer.Preview) []Difference {
	if p.Refusal != nil {
		text := strings.ReplaceAll(p.Refusal.Error(), "\n", "; ")
		return []Difference{
			{Kind: KindRefused, Consent: true, Text: "it would stay as it is and no longer be updated: " + text},
		}
	}

	var out []Difference
	for _, want := range p.Desired.Rules {
		out = append(out, ofRule(p, want)...)
	}

	for _, s := range p.Actions {
		out = append(out, ofAction(svc, p, s)...)
	}

	for _, n := range p.Notices {
		if n.Warning {
			out = append(out, Difference{Kind: KindWarning, Text: n.Message})
		}
	}

	if spec, err := annotation.Parse(svc); err == nil &&
		spec.ProxyProtocol.Any() &&
		spec.Hostname == "" &&
		len(svc.Status.LoadBalancer.Ingress) > 0 {
		out = append(out, Difference{
			Kind: KindIPMode,
			Text: "the status gets ipMode Proxy: traffic from inside the cluster goes through the load balancer too",
		})
	}

	return out
}

// standing returns the current rule of the Service for a port, and its address; nil if there is none.
func standing(a *plan.Actual, port int) (*plan.Address, *plan.Item) {
	for _, address := range a.Addresses {
		for _, r := range address.OwnRules() {
			if r.StartPort == port {
				return &address, &r
			}
		}
	}

	return nil, nil
}

// ofRule compares the current rule of a port with the wanted one.
func ofRule(p *loadbalancer.Preview, want plan.Rule) (out []Difference) {
	address, have := standing(p.Actual, want.PublicPort)
	if have == nil {
		return nil
	}

	protocol, ranges := cmp.Or(have.Protocol, plan.ProtocolTCP), reach(p.Desired, address, have)
	for _, d := range []struct {
		kind              Kind
		what, was, wanted string
		pin               Pin
	}{
		{
			KindProtocol, "the protocol", protocol, want.Protocol,
			Pin{annotation.ProxyProtocol, strconv.FormatBool(protocol == plan.ProtocolTCPProxy)},
		},
		{
			KindAlgorithm, "the algorithm", have.Algorithm, want.Algorithm,
			Pin{annotation.Algorithm, have.Algorithm},
		},
		{
			KindRanges, "who may connect to the rule",
			cmp.Or(ranges, "nobody"), cmp.Or(shortest(prefixes(p.Desired.Ranges)), "nobody"),
			Pin{annotation.SourceCIDRs, ranges},
		},
	} {
		if d.was != d.wanted {
			out = append(out, Difference{
				Kind:    d.kind,
				Port:    want.PublicPort,
				Consent: true,
				Pin:     &d.pin,
				Text:    fmt.Sprintf("%s of port %d changes from %s to %s", d.what, want.PublicPort, d.was, d.wanted),
			})
		}
	}

	return out
}

// ofAction returns what users would notice of one action of the controller, except what ofRule returns.
func ofAction(svc *corev1.Service, p *loadbalancer.Preview, s plan.Step) []Difference {
	d := Difference{Port: s.Port, Consent: true}
	_, have := standing(p.Actual, s.Port)
	switch s.Kind {
	case plan.AllocateAddress:
		d.Kind, d.Text = KindAddress, s.Label()
		d.Consent = len(svc.Status.LoadBalancer.Ingress) > 0 || len(p.Actual.Addresses) > 0

	case plan.ReleaseAddress, plan.DisownAddress:
		d.Kind, d.Text = KindAddress, s.Label()

	case plan.DeleteRule:
		switch wanted := slices.Contains(p.Desired.Ports(), s.Port); {
		case !wanted:
			d.Kind, d.Text = KindPortRemoved, fmt.Sprintf(
				"port %d has a rule on %s that the Service does not ask for; it is deleted", s.Port, s.IP,
			)

		case have == nil || have.ID != s.ItemID: // not the rule that serves the port
			return nil

		case slices.ContainsFunc(p.Desired.Rules, func(r plan.Rule) bool { return r.PublicPort == s.Port }):
			d.Kind = KindGap
			d.Text = fmt.Sprintf("the rule of port %d is deleted and created again, and new connections fail for "+
				"about a second: %s", s.Port, s.Note)

		default:
			d.Kind, d.Pin = KindMode, &Pin{annotation.Mode, annotation.Proxy}
			d.Text = fmt.Sprintf("port %d leaves the load balancer: its rule is deleted, and the port is forwarded "+
				"to one node, or in a VPC to several; new connections fail for some seconds", s.Port)
		}

	default:
		return nil
	}

	return []Difference{d}
}

// reach returns the source ranges that can connect to a port: those that the rule allows and, if there is a firewall,
// the firewall too.
func reach(d *plan.Desired, a *plan.Address, r *plan.Item) string {
	anyone := []string{annotation.Anyone}

	open := anyone
	if d.Firewall {
		open = nil
		for _, f := range a.Firewall {
			all, within := f.StartPort == 0 && f.EndPort == 0, f.StartPort <= r.StartPort && r.StartPort <= f.EndPort
			if (f.Protocol == plan.ProtocolTCP || f.Protocol == "all") && (all || within) {
				open = append(open, f.CIDRs...)
			}
		}
	}

	rule := r.CIDRs
	if len(rule) == 0 {
		rule = anyone
	}

	return shortest(annotation.Intersect(prefixes(open), prefixes(rule)))
}

// shortest returns the shortest list of ranges for the same addresses.
func shortest(in []netip.Prefix) string {
	return strings.Join(annotation.Strings(annotation.Aggregate(in)), ",")
}

// prefixes parses the IPv4 ranges of a list.
func prefixes(in []string) []netip.Prefix {
	v4, _, _ := annotation.ParseRanges(in) // ranges from CloudStack are valid
	return v4
}

// comparison previews what csccm's controller will do with Services after the rules are renamed.
type comparison struct {
	controller *service.Round
	nodes      []*corev1.Node
	rules      rules.Plan
	classes    service.Classes // that the controller serves
	clusterID  string          // cluster id that the controller uses
}

// comparison returns a comparison by the facts.
func (t *Taker) comparison(ctx context.Context, f *Facts) (*comparison, error) {
	c := &comparison{classes: family.ClassesOf(f.Own.Words)}
	c.rules = rules.MakePlan(f.Rules, f.Services, c.classes.Handles, nil, nil)
	for _, n := range f.Nodes {
		c.nodes = append(c.nodes, &n)
	}

	previewer, settings, err := planner.PreviewerOf(
		ctx, t.Cluster, t.Cloud, t.Release, t.ClusterID,
		func(d *service.Deps) {
			d.API.Reader = renamed{d.API.Reader, &c.rules}
			d.Classes = c.classes
			if !f.Own.Installed { // csccm install checks the tenancy policy itself
				d.Tenancy = tenancy.Policy{}
			}
		},
	)
	if err == nil {
		c.controller, c.clusterID = previewer.Round(time.Now()), settings.ClusterID
	}

	return c, err
}

// renamed is a Reader that returns the rules with the names that the plan gives them.
type renamed struct {
	observe.Reader
	plan *rules.Plan
}

// ListLoadBalancerRules applies the keyword of the query to the new names, which CloudStack does not know yet.
func (r renamed) ListLoadBalancerRules(
	ctx context.Context, q cloudstack.LoadBalancerRuleQuery,
) ([]cloudstack.LoadBalancerRule, error) {
	keyword := q.Keyword
	q.Keyword = ""
	all, err := r.Reader.ListLoadBalancerRules(ctx, q)
	return slices.DeleteFunc(renamedRules(all, r.plan), func(rule cloudstack.LoadBalancerRule) bool {
		return !strings.Contains(rule.Name, keyword)
	}), err
}

// renamedRules returns rules with the names that a plan gives them.
func renamedRules(all []cloudstack.LoadBalancerRule, p *rules.Plan) []cloudstack.LoadBalancerRule {
	names, out := map[string]string{}, slices.Clone(all)
	for _, step := range p.Steps {
		names[step.RuleID] = step.NewName
	}

	for i := range out {
		out[i].Name = cmp.Or(names[out[i].ID], out[i].Name)
	}

	return out
}

// service plans one Service, with its pins if pin is set. It offers the pins of a Service only if all of them together
// remove their differences and cause no new difference that needs consent.
func (c *comparison) service(ctx context.Context, svc *corev1.Service, pin bool) (ServicePlan, error) {
	p := ServicePlan{Service: rules.Key(svc)}
	for _, it := range c.rules.Items {
		if it.Service == p.Service && it.Verdict != rules.VerdictSurplus {
			p.Rules, p.Address = append(p.Rules, it.RuleID), it.PublicIP
		}
	}

	slices.Sort(p.Rules)
	if !c.classes.Wants(svc) {
		p.Differences = []Difference{{Kind: KindRefused, Consent: true, Text: "it would stay as it is, and nobody " +
			"would update or delete it: csccm's controller does not serve its loadBalancerClass (chart values " +
			"loadBalancers.class and loadBalancers.classless)"}}
		return p, nil
	}

	preview, err := c.controller.Service(ctx, svc, c.nodes)
	if err != nil {
		return p, err
	}

	p.Differences = differences(svc, &preview)
	if pins := p.pins(); len(pins) > 0 {
		copied := svc.DeepCopy()
		for name, value := range pins {
			metav1.SetMetaDataAnnotation(&copied.ObjectMeta, name, value)
		}

		pinned, err := c.controller.Service(ctx, copied, c.nodes)
		if err != nil {
			return p, err
		}

		if slices.ContainsFunc(differences(copied, &pinned), func(k Difference) bool {
			return k.Consent && !slices.ContainsFunc(p.Differences, func(d Difference) bool {
				return d.Consent && d.Pin == nil && d.Kind == k.Kind && d.Port == k.Port
			})
		}) {
			for i := range p.Differences {
				p.Differences[i].Pin = nil
			}
		} else if pin {
			p.Pinned, preview = true, pinned
			for _, name := range slices.Sorted(maps.Keys(pins)) {
				p.Changes = append(p.Changes, fmt.Sprintf("~ set annotation %s=%q on the Service", name, pins[name]))
			}
		}
	}

	for _, s := range c.rules.Steps {
		if s.Service == p.Service {
			p.Changes = append(p.Changes, changeOf(&s))
		}
	}

	for _, a := range preview.Actions {
		p.Changes = append(p.Changes, a.Sign()+" "+a.Label())
	}

	return p, nil
}

// changeOf describes a rename for the list of changes.
func changeOf(s *rules.Step) string { return plan.Changes + " rename rule " + s.Describe() }
