// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/testenv/script"
)

// See implements script.Driver. "within 5s EXPECTATION" must hold after at most that time.
func (p *player) See(s *script.Step) error {
	if s.Verb == "within" {
		limit, err := time.ParseDuration(s.Word(0))
		inner := &script.Step{Line: s.Line, Not: s.Not, Verb: s.Word(1), Words: s.Words[2:], Text: s.Text}
		for begun := time.Now(); err == nil; time.Sleep(20 * time.Millisecond) {
			synctest.Wait()
			p.learn()
			if why := p.see(inner); why == nil || time.Since(begun) > limit {
				return why
			}
		}
		return err
	}
	p.settled()
	return p.see(s)
}

func (p *player) see(s *script.Step) error {
	see, known := p.sights()[s.Verb]
	if !known {
		return errors.New("nothing of this name can be seen")
	}
	ok, got := see(p.expand(s.Words), p.expand(s.Text))
	if ok == s.Not {
		return fmt.Errorf("there is: %v", got)
	}
	return nil
}

// sights returns the expectations by verb. Each reports whether it holds, and returns the actual state.
//
//	served KEY ..., gone KEY, holds IP, state IP STATE (of the address in CloudStack), ip KEY IP
//	status KEY hostname= ip= mode= ports=N finalizer=
//	same NAME                      the dump equals the noted one; "start" is the dump at the beginning
//	kept NAME [IP]                 each address of the noted dump is unchanged, except IP
//	at ADDRESS [TEXT]              the lines of the dump about an address (only those with TEXT) are the step's text
//	has ADDRESS TEXT ..., count ADDRESS N [TEXT ...]; for these three, address * is the whole dump
//	addresses N (more than at the beginning), served-of KEY*10 N, failed COMMAND N (jobs), failed 429 N (calls)
//	members KEY w1 w2, backends KEY w1=IP, leads KEY w1, rule KEY PORT protocol= algorithm= to=, sticky KEY PORT TEXT
//	rules KEY 80,443 [w1 w2]       exactly these ports have rules, with these members; no port: there are none
//	open KEY PORT RANGES           the sources that the firewall or, in a VPC, the rule allows
//	plan KEY KIND ...              what csccm plan says: the reason of a refusal, and the kinds of actions
//	node NAME provider=external-cloudstack zone= ip= taints=KEY,KEY InternalIP= LABEL=
//	tainted KEY w1 w2, tainted KEY N
//	event REASON TEXT ..., events N [REASON ...], says KEY TEXT ..., condition KEY STATUS TEXT ...
//	annotation KEY NAME TEXT ...
//	asked VERB RESOURCE N          number of such requests to the API server since the controller's first start
//	calls COMMAND N, changed COMMAND ... (all calls that change something), metric NAME N
//	tagged VALUE KIND ...          exactly these kinds of objects have a tag with the value
//	tag ID KEY VALUE               an object has a tag
//
// N is a number, or <=N, >=N.
func (p *player) sights() map[string]func(w, text []string) (bool, any) {
	return map[string]func(w, text []string) (bool, any){
		"served": func(w, _ []string) (bool, any) {
			return !slices.ContainsFunc(w, func(key string) bool { return !p.served(key) }), "not served"
		},
		"gone":  func(w, _ []string) (bool, any) { return p.find(w[0]) == nil, "it is there" },
		"holds": func(w, _ []string) (bool, any) { return p.holds(p.at(w[0])), p.addresses() },
		"state": func(w, _ []string) (bool, any) { got := p.anyAddress(w[0]).State; return got == w[1], got },
		"ip": func(w, _ []string) (bool, any) {
			return p.get(w[0]).Status.LoadBalancer.Ingress[0].IP == p.at(w[1]), p.ip(w[0])
		},
		"status": func(w, _ []string) (bool, any) { got := p.status(w[0]); return script.Subset(got, w[1:]), got },
		"same": func(w, _ []string) (bool, any) {
			diff := changes(p.dumps[w[0]], p.dump())
			return len(diff) == 0, strings.Join(append([]string{"changes"}, diff...), "\n  ")
		},
		"kept": func(w, _ []string) (bool, any) {
			known := map[string]bool{}
			for _, line := range p.dumps[w[0]] {
				known[ipOf(line)] = !slices.Contains(w[1:], ipOf(line))
			}
			diff := slices.DeleteFunc(changes(p.dumps[w[0]], p.dump()),
				func(line string) bool { return !known[ipOf(line)] })
			return len(diff) == 0, strings.Join(diff, "\n  ")
		},
		"plan": func(w, _ []string) (bool, any) { got := p.planned(w[0]); return slices.Equal(got, w[1:]), got },
		"asked": func(w, _ []string) (bool, any) {
			n := 0
			for _, a := range p.kube.Actions() {
				if a.Matches(w[0], w[1]) {
					n++
				}
			}
			return number(n, w[2]), n
		},
		"at":  func(w, text []string) (bool, any) { return equal(p.about(w[0]), w[1:], text) },
		"has": func(w, _ []string) (bool, any) { return all(strings.Join(p.about(w[0]), "\n"), w[1:]) },
		"count": func(w, _ []string) (bool, any) {
			lines := p.about(w[0])
			for _, part := range w[2:] {
				lines = grep(lines, part)
			}
			return number(len(lines), w[1]), lines
		},
		"addresses": func(w, _ []string) (bool, any) {
			more := len(p.addresses()) - len(grep(p.dumps["start"], "address "))
			return number(more, w[0]), more
		},
		"served-of": func(w, _ []string) (bool, any) {
			prefix, n, _ := strings.Cut(w[0], "*")
			all, _ := strconv.Atoi(n)
			served := 0
			for i := range all {
				if p.served(fmt.Sprint(prefix, i)) {
					served++
				}
			}

			return number(served, w[1]), served
		},
		"failed":  func(w, _ []string) (bool, any) { got := p.failures(w[0]); return number(got, w[1]), got },
		"members": func(w, _ []string) (bool, any) { got := p.members(w[0]); return slices.Equal(got, w[1:]), got },
		"backends": func(w, _ []string) (bool, any) {
			var got []string
			list, err := p.inspect.ListLoadBalancerMembers(p.t.Context(), p.on(p.at(w[0])).rules[0].ID)
			require.NoError(p.t, err)
			for _, m := range list {
				got = append(got, m.Name+"="+strings.Join(m.Addresses, ","))
			}

			slices.Sort(got)
			return slices.Equal(got, w[1:]), got
		},
		"leads": func(w, _ []string) (bool, any) { got := p.ledTo(p.ip(w[0])); return slices.Equal(got, w[1:]), got },
		"rules": func(w, _ []string) (bool, any) { return p.rulesAre(w[0], w[1:]) },
		"rule": func(w, _ []string) (bool, any) {
			for _, r := range p.on(p.at(w[0])).rules {
				if fmt.Sprint(r.PublicPort) == w[1] {
					return script.Subset(map[string]string{
						"protocol":    r.Protocol,
						"algorithm":   r.Algorithm,
						"to":          fmt.Sprint(r.PrivatePort),
						"description": r.Description,
					}, w[2:]), r
				}
			}

			return false, "no rule"
		},
		"open": func(w, _ []string) (bool, any) {
			port, _ := strconv.Atoi(w[1])
			got := strings.Join(p.on(p.at(w[0])).access(port), ",")
			return got == strings.Join(w[2:], ","), got
		},
		"sticky": func(w, _ []string) (bool, any) {
			list, err := p.inspect.ListStickinessPolicies(p.t.Context(), p.refer("rule:"+w[0]+":"+w[1]))
			require.NoError(p.t, err)
			got := ""
			for _, policy := range list {
				got += policy.Method + " " + policy.Params["cookie-name"] + policy.Params["expire"]
			}
			return strings.HasPrefix(got, w[2]) && (w[2] != "" || got == ""), got
		},
		"event": func(w, _ []string) (bool, any) {
			return slices.ContainsFunc(p.said(),
				func(e string) bool {
					ok, _ := all(e, append([]string{w[0] + ": "}, w[1:]...))
					return ok
				}), "other Events"
		},
		"events": func(w, _ []string) (bool, any) {
			said := p.said()
			for _, reason := range w[1:] {
				said = slices.DeleteFunc(said, func(e string) bool { return !strings.HasPrefix(e, reason) })
			}
			return number(len(said), w[0]), said
		},
		"node": func(w, _ []string) (bool, any) { got := p.nodeFacts(w[0]); return script.Subset(got, w[1:]), got },
		"tainted": func(w, _ []string) (bool, any) {
			var got []string
			for _, n := range p.allNodes() {
				if tainted(n, w[0]) {
					got = append(got, n.Name)
				}
			}

			if len(w) > 1 && strings.ContainsAny(w[1][:1], "<>0123456789") {
				return number(len(got), w[1]), got
			}

			return slices.Equal(got, w[1:]), got
		},
		"says": func(w, _ []string) (bool, any) { return all(p.says(w[0]), w[1:]) },
		"condition": func(w, _ []string) (bool, any) {
			c := p.ready(w[0])
			ok, _ := all(c.Reason+": "+c.Message, w[2:])
			return ok && string(c.Status) == w[1], c
		},
		"annotation": func(w, _ []string) (bool, any) {
			return all(p.get(w[0]).Annotations[annotation.Prefix+w[1]], w[2:])
		},
		"calls": func(w, _ []string) (bool, any) {
			calls := p.Calls("ccm")
			if w[0] != "*" {
				calls = grep(calls, w[0])
			}
			return number(len(calls), w[1]), tally(calls)
		},
		"changed": func(w, _ []string) (bool, any) { return slices.Equal(p.wrote(), w), p.wrote() },
		"tagged": func(w, _ []string) (bool, any) {
			got := p.tagged(w[0])
			return slices.Equal(got, slices.Sorted(slices.Values(w[1:]))), got
		},
		"tag": func(w, _ []string) (bool, any) {
			tags, err := p.inspect.ListTags(p.t.Context(), cloudstack.TagQuery{})
			require.NoError(p.t, err)
			return slices.ContainsFunc(tags,
				func(t cloudstack.Tag) bool { return t.ResourceID == w[0] && t.Key == w[1] && t.Value == w[2] }), tags
		},
		"metric": func(w, _ []string) (bool, any) { got := p.metric(w[0]); return number(int(got), w[1]), got },
	}
}

// planned returns the kinds of actions that are planned for a Service now, or the reason why it is refused. It changes
// nothing.
func (p *player) planned(key string) (out []string) {
	nodes, err := p.p.nodeCache.list()
	require.NoError(p.t, err)
	o := DefaultOptions()
	o.ClusterID = "test"
	previewer, err := NewPreviewer(p.t.Context(), &cloudstack.Config{}, o, p.Client(testAPIKey, testSecret), p.kube)
	require.NoError(p.t, err)
	before, wrote := p.get(key), len(p.wrote())
	preview, err := previewer.Round(time.Time{}).Service(p.t.Context(), before, nodes)
	require.NoError(p.t, err)
	require.Equal(p.t, before, p.get(key))
	require.Len(p.t, p.wrote(), wrote)
	if preview.Refusal != nil {
		out = append(out, string(preview.Refusal.Reason))
	}

	for _, a := range preview.Actions {
		out = append(out, a.Kind)
	}

	if preview.Refusal != nil {
		return out
	}

	for _, n := range preview.Notices {
		out = append(out, string(n.Reason))
	}

	return out
}

// tagged returns the kinds of objects that have a tag with a value.
func (p *player) tagged(value string) []string {
	tags, err := p.inspect.ListTags(p.t.Context(), cloudstack.TagQuery{})
	require.NoError(p.t, err)
	kinds := map[string]bool{}
	for _, t := range tags {
		if t.Value == value {
			kinds[t.ResourceType] = true
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// status is what a Service shows.
func (p *player) status(key string) map[string]string {
	out := map[string]string{"finalizer": strings.Join(p.get(key).Finalizers, ",")}
	for _, in := range p.get(key).Status.LoadBalancer.Ingress {
		out["ip"], out["hostname"], out["ports"] = in.IP, in.Hostname, fmt.Sprint(len(in.Ports))
		if in.IPMode != nil {
			out["mode"] = string(*in.IPMode)
		}
	}
	return out
}

// allNodes returns the Nodes by name; nodeFacts returns the properties of one of them, or nil if it is deleted.
func (p *player) allNodes() []*corev1.Node {
	list, err := p.p.nodeCache.list()
	require.NoError(p.t, err)
	return slices.SortedFunc(slices.Values(list),
		func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
}

func (p *player) nodeFacts(name string) map[string]string {
	for _, n := range p.allNodes() {
		if n.Name == name {
			var taints []string
			for _, t := range n.Spec.Taints {
				taints = append(taints, t.Key)
			}
			provider, _, _ := strings.Cut(n.Spec.ProviderID, "://")
			facts := map[string]string{
				"provider": provider,
				"zone":     n.Labels[corev1.LabelTopologyZone],
				"taints":   strings.Join(taints, ","),
			}
			maps.Copy(facts, n.Labels)
			for _, a := range n.Status.Addresses {
				facts["ip"] = cmp.Or(facts["ip"], a.Address)
				facts[string(a.Type)] = a.Address
			}
			return facts
		}
	}

	return nil
}

// rulesAre reports whether exactly the ports in the first word have rules, with the members in the other words; all
// nodes if there are no other words.
func (p *player) rulesAre(key string, words []string) (bool, any) {
	want, members := map[string][]string{}, p.setup.nodes
	if len(words) > 1 {
		members = words[1:]
	}
	for _, w := range words[:min(1, len(words))] {
		for port := range strings.SplitSeq(w, ",") {
			want[port] = members
		}
	}
	a, got := p.on(p.at(key)), map[string][]string{}
	for _, r := range a.rules {
		got[fmt.Sprint(r.PublicPort)] = a.members[r.ID]
	}
	return maps.EqualFunc(got, want, slices.Equal), got
}

// about returns the lines of the dump about an address, or all of them for *.
func (p *player) about(name string) []string {
	if name == "*" {
		return p.dump()
	}
	return of(p.dump(), p.at(name))
}

// equal compares the lines of a dump that contain a text with the expected lines.
func equal(lines, with, want []string) (bool, any) {
	if len(with) > 0 {
		lines = grep(lines, with[0])
	}
	return slices.Equal(lines, want), strings.Join(append([]string{""}, lines...), "\n  | ")
}

func all(text string, parts []string) (bool, any) {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }), text
}

// number compares a number with N, <=N or >=N.
func number(got int, want string) bool {
	n, err := strconv.Atoi(strings.TrimLeft(want, "<>="))
	switch {
	case err != nil:
		panic(err)
	case strings.HasPrefix(want, "<="):
		return got <= n
	case strings.HasPrefix(want, ">="):
		return got >= n
	}
	return got == n
}
