// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// NobodyFit says that ports are forwarded and no member may be led to; nil when that is not so.
func NobodyFit(d Desired, members []Member, unfit map[string]string) *Notice {
	if len(d.Forwards) == 0 || len(d.Members) == 0 {
		return nil
	}
	var why []string
	for i := range members {
		reason, ok := unfit[members[i].Node]
		if !ok {
			return nil
		}
		why = append(why, members[i].Node+" ("+reason+")")
	}
	slices.Sort(why)
	if n := len(why); n > 5 {
		why = append(why[:5], fmt.Sprintf("%d more", n-5))
	}
	return &Notice{Warning: true, Reason: ReasonNodesUnfit, Message: "no node can serve the forwarded ports, which stay where they are: " + strings.Join(why, ", ")}
}

// Moves says which ports were moved from where to where, and why. The steps are those that were done.
func Moves(done []UpdateForward, subject *Subject) []Notice {
	type way struct{ from, to string }
	ports := map[way][]string{}
	for i := range done {
		if u := &done[i]; u.From != "" && u.Member != "" {
			w := way{u.From, u.Member}
			if !slices.Contains(ports[w], u.Text()) {
				ports[w] = append(ports[w], u.Text())
			}
		}
	}
	var out []Notice
	for _, w := range slices.SortedFunc(maps.Keys(ports), func(a, b way) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) }) {
		from, why := subject.node(w.from), "so that the nodes share the clients"
		switch reason, unfit := subject.Unfit[from]; {
		case unfit:
			why = reason
		case !slices.Contains(subject.Desired.Members, w.from):
			why = "no longer a node that serves the Service"
		}
		word := "port "
		if len(ports[w]) > 1 {
			word = "ports "
		}
		out = append(out, Notice{Reason: ReasonPortMoved, Message: fmt.Sprintf("moved %s%s from node %s to %s: %s", word, strings.Join(ports[w], ", "), from, subject.node(w.to), why)})
	}
	return out
}

// node is the name of the node behind a member; the VM's id where that is not known.
func (s *Subject) node(member string) string {
	vm, _ := SplitMember(member)
	for _, list := range [][]Member{s.Members, s.Reach} {
		for i := range list {
			if list[i].VMID == vm {
				return list[i].Node
			}
		}
	}
	return vm
}

// Switches says which ports a plan takes from the load balancer to nodes, or back.
func Switches(steps []Step) []Notice {
	ports := map[OnAddress]map[bool][]string{} // by whether they are forwarded then
	for _, s := range steps {
		on, ok := s.OnAddress()
		switch s.Action.(type) {
		case CreateForward:
			ok = ok && slices.ContainsFunc(s.Replaces, func(id string) bool { return deletes[DeleteRule](steps, id) })
		case CreateRule:
			ok = ok && slices.ContainsFunc(s.Replaces, func(id string) bool { return deletes[DeleteForward](steps, id) })
		default:
			ok = false
		}
		if !ok {
			continue
		}
		if ports[on] == nil {
			ports[on] = map[bool][]string{}
		}
		text, forwarded := switchedPort(s)
		if !slices.Contains(ports[on][forwarded], text) {
			ports[on][forwarded] = append(ports[on][forwarded], text)
		}
	}
	var out []Notice
	for _, on := range slices.SortedFunc(maps.Keys(ports), func(a, b OnAddress) int { return cmp.Compare(a.IP+a.AddressID, b.IP+b.AddressID) }) {
		for _, forwarded := range []bool{true, false} {
			list, way := ports[on][forwarded], "from port forwarding to the load balancer"
			if forwarded {
				way = "from the load balancer to port forwarding"
			}
			if len(list) > 0 {
				out = append(out, Notice{Reason: ReasonBriefInterruption, Message: fmt.Sprintf(
					"port %s%s is switched %s: new clients find it closed for some seconds, and open connections may end", strings.Join(list, ", "), on.text(), way)})
			}
		}
	}
	return out
}

func switchedPort(s Step) (text string, forwarded bool) {
	if on, ok := s.OnForward(); ok {
		return on.Text(), true
	}
	rule, _ := s.OnRule()
	return fmt.Sprint(rule.Port), false
}

// deletes reports whether an action of a type removes an item.
func deletes[A interface {
	Action
	removes() string
}](steps []Step, id string) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		act, ok := s.Action.(A)
		return ok && act.removes() == id
	})
}

// ForwardACL says what nobody lets in of forwarded ports: they pass the tier's network ACL list with the node port.
func ForwardACL(d Desired, n *Network) []Notice {
	if n == nil || n.VPCID == "" || len(d.Forwards) == 0 || len(d.Ranges) == 0 || d.ACLID != "" || n.ACLName == defaultAllow || n.ACLName == defaultDeny {
		return nil
	}
	var ports []string
	for _, f := range d.Forwards {
		ports = append(ports, portText(f.Protocol, f.PrivatePort))
	}
	return []Notice{{Warning: true, Reason: ReasonDefaultACL, Message: fmt.Sprintf(
		"the tier's network ACL list %s is left alone (--manage-network-acls): let in %s to %s in it, or nobody reaches the forwarded ports",
		cmp.Or(n.ACLName, n.ACLID, "none"), strings.Join(access.Canonical(d.Ranges), ","), strings.Join(ports, ", "))}}
}
