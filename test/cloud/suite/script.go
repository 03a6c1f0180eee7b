// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/testenv/script"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/must"
)

// played returns a scenario of pkg/testenv/script/table/anywhere.txt, which the tests of pkg/provider also play.
func played(name string) scenario {
	return scenario{name: name, run: func(e *env) string {
		const most = 56 // of the 63 characters of a namespace's name; "-friend" needs the others
		friend := &env{place: e.place, ctx: e.ctx, namespace: e.namespace[:min(len(e.namespace), most)] + "-friend"}
		friend.makeNamespace()
		e.cleanup(func() {
			friend.ctx = e.ctx
			friend.removeAll()
		})
		p := &player{env: e, friend: friend, vars: map[string]string{"friend": friend.namespace}}
		for i, node := range e.names() {
			p.vars[fmt.Sprintf("n%d", i+1)] = node
		}
		found := must.Get(script.Find("anywhere", name))
		must.OK(found[0].Play(p))
		return found[0].Name
	}}
}

// player plays a scenario in the place's cluster. It implements the same words as the driver in pkg/provider.
type player struct {
	*env
	friend *env // another namespace of the scenario
	vars   map[string]string
	mark   proxy.Mark
}

// of returns the environment and the name of a Service. friend/web is a Service in the other namespace.
func (p *player) of(key string) (*env, string) {
	if name, other := strings.CutPrefix(key, "friend/"); other {
		return p.friend, name
	}
	return p.env, key
}

// at returns the address of a Service, or a literal address unchanged.
func (p *player) at(name string) string {
	if strings.Count(name, ".") > 0 {
		return name
	}
	e, service := p.of(name)
	return e.address(service)
}

func (p *player) expand(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = os.Expand(w, func(name string) string {
			if value, known := p.vars[name]; known {
				return value
			}
			return p.addressOf(name)
		})
	}
	return out
}

// addressOf returns the address in a Service's status, or "" if it has none.
func (p *player) addressOf(key string) string {
	e, name := p.of(key)
	for _, in := range e.ingress(name) {
		return in.IP
	}
	return ""
}

// Do implements script.Driver.
func (p *player) Do(s *script.Step) error {
	return must.Catch(func() {
		w := p.expand(s.Words)
		switch s.Verb {
		case "service":
			e, name := p.of(w[0])
			e.create(name, w[1:]...)
		case "edit":
			e, name := p.of(w[0])
			e.edit(name, w[1:]...)
		case "delete":
			e, name := p.of(w[0])
			e.remove(name)
		case "endpoints":
			p.endpoint(w[0], w[1])
		case "label":
			key, value, _ := strings.Cut(w[1], "=")
			p.label(w[0], key, value)
		case "acquire":
			ip, id := p.acquire()
			p.cleanup(func() {
				if p.addresses()[ip] == id {
					p.release(id)
				}
			})
			p.vars[w[0]] = ip
		case "release":
			if id := p.addresses()[w[0]]; id != "" {
				p.release(id)
			}
		case "let":
			kind, name, _ := strings.Cut(w[1], ":")
			must.Be(kind == "ip", "only addresses are known here")
			p.vars[w[0]] = p.at(name)
		case "reset":
			p.mark = p.proxy.Mark()
		default:
			must.Fail("nothing of this name can be done")
		}
	})
}

// See implements script.Driver. It waits until the step's expectation holds.
func (p *player) See(s *script.Step) error {
	return must.Catch(func() {
		p.until("what the scenario expects", func() {
			ok, got := p.see(s.Verb, p.expand(s.Words))
			must.Be(ok != s.Not, "there is: %v; Events: %s", got, strings.Join(p.said(), "; "))
		})
	})
}

// see reports whether a step's expectation holds, and returns the actual state.
func (p *player) see(verb string, w []string) (ok bool, got any) {
	switch verb {
	case "served":
		got = p.addressOf(w[0])
		return got != "", "no address"
	case "ip":
		got = p.addressOf(w[0])
		return got == w[1], got
	case "holds":
		all := p.addresses()
		return all[w[0]] != "", all
	case "status":
		e, name := p.of(w[0])
		shown := map[string]string{}
		for _, in := range e.ingress(name) {
			shown["ip"], shown["hostname"] = in.IP, in.Hostname
		}
		return script.Subset(shown, w[1:]), shown
	case "rules":
		return p.rulesAreFor(p.rules(p.at(w[0])), w[1:])
	case "rule":
		r := p.rules(p.at(w[0]))[w[1]]
		return script.Subset(map[string]string{
			"protocol":  r.Protocol,
			"algorithm": r.Algorithm,
			"to":        fmt.Sprint(r.PrivatePort),
		}, w[2:]), r
	case "open":
		r := p.rules(p.at(w[0]))[w[1]]
		open := cmp.Or(strings.Join(r.CIDRs, ","), annotation.Anyone)
		switch {
		case len(r.Members) == 0:
			open = ""
		case p.vpcID == "":
			open = sources(p.firewall(r.PublicIPID), w[1])
		}
		return open == strings.Join(w[2:], ","), open
	case "sticky":
		method := ""
		for _, policy := range must.Get(p.world.User.ListStickinessPolicies(p.ctx, p.rules(p.at(w[0]))[w[1]].ID)) {
			method = policy.Method
		}
		return method == w[2], method
	case "event":
		return slices.ContainsFunc(p.said(), func(e string) bool {
			return strings.HasPrefix(e, w[0]+": ") &&
				!slices.ContainsFunc(w[1:], func(text string) bool { return !strings.Contains(e, text) })
		}), "no such Event"
	case "calls":
		n := len(slices.DeleteFunc(p.proxy.Since(p.mark), func(c proxy.Call) bool { return c.Command != w[0] }))
		return fmt.Sprint(n) == w[1], n
	}

	must.Fail("nothing of this name can be seen")
	return false, nil
}

// rulesAreFor reports whether there are rules for exactly the ports in the first word, with the members in the other
// words; without other words, with all nodes.
func (p *player) rulesAreFor(rules map[string]rule, words []string) (ok bool, got any) {
	members, want := p.names(), 0
	if len(words) > 1 {
		members = words[1:]
	}
	ok = true
	for _, w := range words[:min(1, len(words))] {
		for port := range strings.SplitSeq(w, ",") {
			want++
			ok = ok && slices.Equal(rules[port].Members, members)
		}
	}
	return ok && len(rules) == want, rules
}

// said returns the Events of all Services of the scenario in the format of pkg/provider's driver.
func (p *player) said() (all []string) {
	for space, e := range map[string]*env{"": p.env, "friend/": p.friend} {
		for _, s := range e.all() {
			for _, event := range e.listEvents(s.Name) {
				all = append(all,
					fmt.Sprintf("%s: %s (%s, %s%s)", event.Reason, event.Message, event.Type, space, s.Name))
			}
		}
	}
	return all
}
