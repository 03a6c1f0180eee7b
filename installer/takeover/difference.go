// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Kind says what differs.
type Kind string

// Kinds of differences. Down to KindRefused they need consent.
const (
	KindProtocol    Kind = "protocol"
	KindAlgorithm   Kind = "algorithm"
	KindMode        Kind = "mode"         // a port leaves the load balancer, and is forwarded to a node
	KindRanges      Kind = "ranges"       // who may connect
	KindGap         Kind = "gap"          // a rule is deleted and created again: new connections fail for about a second
	KindAddress     Kind = "address"      // another public address, or one that is given up
	KindPortRemoved Kind = "port-removed" // a rule that the Service does not ask for
	KindRefused     Kind = "refused"      // csccm's controller does not serve the Service unchanged
	KindFirewall    Kind = "firewall"     // a firewall rule of others stays, that lets in more than the Service
	KindForwards    Kind = "forwards"     // port forwardings of others on the address, which stay
	KindKeeps       Kind = "keeps"        // the address stays in CloudStack when the Service is deleted
	KindIPMode      Kind = "ip-mode"      // of the Service's status
)

// Difference is one thing that csccm's controller does differently from the current state.
type Difference struct {
	Kind    Kind   `json:"kind"`
	Port    int    `json:"port,omitempty"`
	Was     string `json:"was,omitempty"`
	Becomes string `json:"becomes,omitempty"`
	Text    string `json:"text"`
	// Consent: users of the Service would notice; nothing happens before somebody agrees.
	Consent bool `json:"consent"`
	// Pin keeps the current state; nil when no annotation can.
	Pin *Pin `json:"pin,omitempty"`
}

// Pin is an annotation of a Service.
type Pin struct {
	Annotation string `json:"annotation"`
	Value      string `json:"value"`
}

// service compares the current state of a Service with what the controller would make of it.
func (w *current) service(svc *corev1.Service) ServicePlan {
	p := ServicePlan{Service: svc.Namespace + "/" + svc.Name}
	for i := range w.rules {
		if r := &w.rules[i]; w.owner[r.ID] == p.Service {
			p.Rules = append(p.Rules, r.ID)
			p.Address = r.PublicIP
		}
	}
	slices.Sort(p.Rules)
	var actions []plan.Step
	p.Differences, actions = w.compare(svc)
	for i := range p.Differences {
		if d := &p.Differences[i]; d.Consent {
			d.Pin = w.pin(svc, d)
		}
	}
	p.Changes = w.changes(p.Service, nil, actions)
	if pins := p.Pins(); pins != nil {
		_, actions = w.compare(withAnnotations(svc, pins))
		p.pinned = w.changes(p.Service, pins, actions)
	}
	return p
}

func refused(text string) []Difference {
	return []Difference{{Kind: KindRefused, Consent: true, Text: "it would be left unchanged and no longer be updated: " + text}}
}

// compare returns what the controller does otherwise than what is there, and its plan. There is no plan where the
// controller refuses the Service.
func (w *current) compare(svc *corev1.Service) ([]Difference, []plan.Step) {
	id := loadbalancer.ServiceOf(svc)
	spec, err := annotation.Parse(svc)
	if err != nil {
		return refused(strings.ReplaceAll(err.Error(), "\n", "; ")), nil
	}
	preview, err := w.preview(svc, spec)
	switch {
	case err != nil:
		return refused(err.Error()), nil
	case preview.Refusal != nil:
		return refused(preview.Refusal.Error()), nil
	}
	desired, actual, actions := *preview.Desired, *preview.Actual, preview.Actions
	var out []Difference
	out = append(out, addresses(id, actual, actions)...)
	for _, want := range desired.Rules {
		out = append(out, port(want, desired, actual, actions)...)
	}
	for _, want := range desired.Forwards {
		out = append(out, forward(want, actual)...)
	}
	out = append(out, leftovers(desired, actions)...)
	out = append(out, w.beside(actual)...)
	return append(out, quiet(spec, id, desired, actual)...), actions
}

// standing is the Service's rule of a port, with its address.
func standing(a plan.Actual, port int) (*plan.Address, *plan.Item) {
	for i := range a.Addresses {
		for j := range a.Addresses[i].Rules {
			if r := &a.Addresses[i].Rules[j]; r.Owner == plan.Owned && r.StartPort == port {
				return &a.Addresses[i], r
			}
		}
	}
	return nil, nil
}

func addresses(id plan.Service, a plan.Actual, actions []plan.Step) []Difference {
	var out []Difference
	served := len(id.StatusIPs) > 0
	for i := range a.Addresses {
		served = served || slices.ContainsFunc(a.Addresses[i].Rules, func(r plan.Item) bool { return r.Owner == plan.Owned })
	}
	for _, s := range actions {
		switch s.Kind {
		case plan.AllocateAddress:
			out = append(out, Difference{Kind: KindAddress, Consent: served, Becomes: s.IP, Text: s.Label()})
		case plan.ReleaseAddress, plan.ForgetAddress:
			out = append(out, Difference{Kind: KindAddress, Consent: true, Was: s.IP, Text: s.Label()})
		}
	}
	return out
}

// port compares one port that the Service asks for.
func port(want plan.Rule, d plan.Desired, a plan.Actual, actions []plan.Step) []Difference {
	address, have := standing(a, want.PublicPort)
	if have == nil {
		return nil
	}
	var out []Difference
	differ := func(k Kind, what, was, becomes string) {
		out = append(out, Difference{
			Kind: k, Port: want.PublicPort, Was: was, Becomes: becomes, Consent: true,
			Text: fmt.Sprintf("%s of port %d changes from %s to %s", what, want.PublicPort, was, becomes),
		})
	}
	if was := cmp.Or(have.Protocol, plan.ProtocolTCP); was != want.Protocol {
		differ(KindProtocol, "the protocol", was, want.Protocol)
	}
	if have.Algorithm != want.Algorithm {
		differ(KindAlgorithm, "the algorithm", have.Algorithm, want.Algorithm)
	}
	was, becomes, asked := ranges(reach(address, have)), ranges(reachAfter(address, have, want, actions)), ranges(minimal(prefixes(d.Ranges)))
	if was != becomes {
		differ(KindRanges, "who may connect to the rule", was, becomes)
	}
	if becomes != asked {
		out = append(out, Difference{
			Kind: KindFirewall, Port: want.PublicPort, Was: was, Becomes: becomes,
			Text: fmt.Sprintf("port %d stays open to %s, although the Service asks for %s: a firewall rule on %s is not of this Service", want.PublicPort, becomes, asked, address.IP),
		})
	}
	for _, s := range actions {
		if s.Kind == plan.DeleteRule && s.ItemID == have.ID {
			out = append(out, Difference{
				Kind: KindGap, Port: want.PublicPort, Consent: true,
				Text: fmt.Sprintf("the rule of port %d is deleted and created again, and new connections fail for about a second: %s", want.PublicPort, s.Note),
			})
		}
	}
	return out
}

// forward compares one port that the controller forwards to a node. No predecessor makes port forwardings.
func forward(want plan.ForwardPort, a plan.Actual) []Difference {
	if _, have := standing(a, want.PublicPort); have == nil || want.Protocol != plan.ProtocolTCP {
		return nil
	}
	return []Difference{{
		Kind: KindMode, Port: want.PublicPort, Was: annotation.Proxy, Becomes: annotation.Direct, Consent: true, Text: fmt.Sprintf(
			"port %d/%s leaves the load balancer: its rule is deleted, and the port is forwarded to one node, or in a VPC to several; new connections fail for some seconds",
			want.PublicPort, want.Protocol),
	}}
}

// beside names port forwardings on the Service's addresses, which are others' and stay.
func (w *current) beside(a plan.Actual) []Difference {
	var out []Difference
	for i := range a.Addresses {
		var ports []string
		for j := range w.facts.Forwards {
			f := &w.facts.Forwards[j]
			if f.PublicIPID == a.Addresses[i].ID {
				ports = append(ports, fmt.Sprintf("%d/%s to VM %s", f.StartPort, strings.ToLower(f.Protocol), cmp.Or(f.VMName, f.VMID)))
			}
		}
		if len(ports) > 0 {
			slices.Sort(ports)
			out = append(out, Difference{Kind: KindForwards, Text: fmt.Sprintf("%s of address %s %s: %s",
				english.Plural(len(ports), "port forwarding", ""), a.Addresses[i].IP, english.PluralWord(len(ports), "stays", "stay"), strings.Join(ports, ", "))})
		}
	}
	return out
}

// reachAfter is who gets to a port when the plan is done.
func reachAfter(a *plan.Address, have *plan.Item, want plan.Rule, actions []plan.Step) []string {
	after := plan.Address{}
	closed := map[string]bool{}
	rule := *have
	for _, s := range actions {
		switch s.Kind {
		case plan.CloseFirewall:
			closed[s.ItemID] = true
		case plan.OpenFirewall:
			after.Firewall = append(after.Firewall, plan.Item{Rule: access.Rule{Range: s.Access}})
		case plan.CreateRule:
			if s.Port == want.PublicPort {
				rule.CIDRs = want.CIDRs
			}
		case plan.UpdateRule:
			if s.ItemID == have.ID && s.Rule.CIDRs != nil {
				rule.CIDRs = s.Rule.CIDRs
			}
		}
	}
	for i := range a.Firewall {
		if !closed[a.Firewall[i].ID] {
			after.Firewall = append(after.Firewall, a.Firewall[i])
		}
	}
	return reach(&after, &rule)
}

func ranges(r []string) string {
	if len(r) == 0 {
		return "nobody"
	}
	return strings.Join(r, ",")
}

// leftovers are rules of ports that the Service does not ask for.
func leftovers(d plan.Desired, actions []plan.Step) []Difference {
	var out []Difference
	for _, s := range actions {
		if s.Kind != plan.DeleteRule || slices.Contains(d.Ports(), s.Port) {
			continue
		}
		out = append(out, Difference{Kind: KindPortRemoved, Port: s.Port, Consent: true, Text: fmt.Sprintf("port %d has a rule on %s that the Service does not ask for; it is deleted", s.Port, s.IP)})
	}
	return out
}

// quiet are differences that nobody notices while the Service lives.
func quiet(spec annotation.Spec, id plan.Service, d plan.Desired, a plan.Actual) []Difference {
	var out []Difference
	for _, want := range d.Rules {
		if address, have := standing(a, want.PublicPort); have != nil && !address.Allocated {
			out = append(out, Difference{Kind: KindKeeps, Text: fmt.Sprintf(
				"address %s stays in CloudStack when the Service is deleted: nothing in CloudStack proves who acquired it; csccm adopt %s hands it over after the takeover",
				address.IP, id.Key())})
			break
		}
	}
	if spec.ProxyProtocol.Any() && spec.Hostname == "" && len(id.StatusIPs) > 0 {
		out = append(out, Difference{Kind: KindIPMode, Text: "the status gets ipMode Proxy: traffic from inside the cluster goes through the load balancer too"})
	}
	return out
}

// pin finds an annotation with which the difference is gone and no other one that needs consent has come.
func (w *current) pin(svc *corev1.Service, d *Difference) *Pin {
	var candidate Pin
	switch d.Kind {
	case KindProtocol:
		candidate = Pin{annotation.ProxyProtocol, strconv.FormatBool(d.Was == plan.ProtocolTCPProxy)}
	case KindMode:
		candidate = Pin{annotation.Mode, annotation.Proxy}
	case KindAlgorithm:
		candidate = Pin{annotation.Algorithm, d.Was}
	case KindRanges:
		candidate = Pin{annotation.SourceCIDRs, d.Was}
		if d.Was == "nobody" {
			candidate.Value = ""
		}
	default:
		return nil
	}
	now, _ := w.compare(svc)
	kept, _ := w.compare(withAnnotations(svc, map[string]string{candidate.Annotation: candidate.Value}))
	before := consents(now)
	for key := range consents(kept) {
		if key == d.key() || !before[key] {
			return nil
		}
	}
	return &candidate
}

func withAnnotations(svc *corev1.Service, annotations map[string]string) *corev1.Service {
	copied := svc.DeepCopy()
	if copied.Annotations == nil {
		copied.Annotations = map[string]string{}
	}
	maps.Copy(copied.Annotations, annotations)
	return copied
}

func (d *Difference) key() string { return string(d.Kind) + ":" + strconv.Itoa(d.Port) }

func consents(in []Difference) map[string]bool {
	out := map[string]bool{}
	for i := range in {
		if in[i].Consent {
			out[in[i].key()] = true
		}
	}
	return out
}
