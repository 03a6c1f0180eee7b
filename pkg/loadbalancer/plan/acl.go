// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// maxACLReason is the maximum length of an item's reason in CloudStack.
const maxACLReason = 255

// ACLReason returns the reason for an item of a Service, which marks the item as the Service's. The reason is set when
// the item is created, so the item never exists without an owner, and the role does not need the right to tag.
func ACLReason(cluster string, svc Service) string {
	mark := "(csccm " + cluster + " " + svc.UID + ")"
	text := "Service " + svc.Key()
	if room := maxACLReason - len(mark) - 1; len(text) > room {
		text = text[:max(room, 0)]
	}
	return text + " " + mark
}

// ACLOwner parses the owner from a reason; ok is false if csccm did not write the reason.
func ACLOwner(reason string) (cluster, uid string, ok bool) {
	at := strings.LastIndex(reason, "(csccm ")
	if at < 0 || !strings.HasSuffix(reason, ")") {
		return "", "", false
	}
	words := reason[at+len("(csccm ") : len(reason)-1]
	last := strings.LastIndexByte(words, ' ') // the name of a cluster may contain spaces, a UID does not
	if last < 1 || last == len(words)-1 {
		return "", "", false
	}
	return words[:last], words[last+1:], true
}

// FreeNumber chooses the number of a new item. It is the highest free one before the first item that denies all
// sources, after which nothing is allowed. A high number leaves the operator's specific denials in effect.
func FreeNumber(items []Item, f access.Range) (int, *RefusalError) {
	used := map[int]bool{}
	last, wall := 0, wallOf(items, f)
	for _, i := range items {
		used[i.Number] = true
		last = max(last, i.Number)
	}

	if wall == 0 {
		return last + 1, nil
	}
	for n := wall - 1; n >= 1; n-- {
		if !used[n] {
			return n, nil
		}
	}
	return 0, Refuse(ReasonSourceRanges,
		fmt.Sprintf("the network ACL list has no free number before item %d, which denies all", wall),
		"give the item that denies all a higher number")
}

// wallOf returns the number of the first item that denies all sources one of the ports; 0 if there is none.
func wallOf(items []Item, f access.Range) int {
	wall := 0
	for _, it := range items {
		if it.deniesAll(f) && (wall == 0 || it.Number < wall) {
			wall = it.Number
		}
	}
	return wall
}

// CheckACL refuses a plan that needs more numbers of a network ACL list than the Service may take. Only numbers before
// an item that denies all sources can allow anything. The Services of a namespace may take half of the numbers that
// others leave free, so that other namespaces find room. A Service that has more already may keep and replace its
// items.
func CheckACL(d Desired, a Actual, steps []Step) *RefusalError {
	a.ACLs = slices.Clip(a.ACLs)
	list := a.ACL(d.ACLID)
	if conflict, widens := SharedACL(d, *list); widens {
		return conflict
	}
	for _, s := range steps {
		if s.Kind == OpenACL && s.ACLID == d.ACLID {
			if refusal := list.room(wallOf(list.Items, s.Access), steps); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// SharedACL refuses a Service whose internal load balancer cannot enforce its source ranges: the network ACL list does
// not distinguish load balancers, and allows other sources for the same port of another Service. widens reports whether
// items of the Service would allow sources that its items do not allow now.
func SharedACL(d Desired, lists ...ACL) (conflict *RefusalError, widens bool) {
	at := slices.IndexFunc(lists, func(l ACL) bool { return l.ListID == d.ACLID })
	if !d.Internal || len(d.Ranges) == 0 || at < 0 {
		return nil, false // without items and members, no source has access
	}

	items := lists[at].Items
	for _, port := range d.Ports() {
		var own, others []string
		for i := range items {
			switch item := &items[i]; {
			case !item.Allow || !item.Ingress || item.Protocol != ProtocolTCP || !item.on(port):
			case item.Owner == Owned:
				own = append(own, item.CIDRs...)
			case item.By != "":
				others = append(others, item.CIDRs...)
			}
		}

		if len(others) == 0 || annotation.SameRanges(others, d.Ranges) {
			continue
		}

		conflict = RefusePort(
			ReasonSourceRanges,
			fmt.Sprintf("the tier's network ACL list allows other sources for port %d of another Service, and does "+
				"not distinguish internal load balancers", port),
			"use another port, or the same source ranges for both Services", port,
		)

		if widens = !annotation.Contain(own, d.Ranges); widens {
			break
		}
	}

	return conflict, widens
}

// room refuses a plan that needs too many numbers before the item wall, which denies all sources; 0 if there is no such
// item.
func (l *ACL) room(wall int, steps []Step) *RefusalError {
	if wall == 0 {
		return nil
	}

	used, own, siblings := map[int]bool{}, map[string]bool{}, 0
	for _, i := range l.Items {
		if i.Number >= wall {
			continue
		}
		used[i.Number] = true
		switch {
		case i.Owner == Owned:
			own[i.ID] = true
		case i.Sibling:
			siblings++
		}
	}

	free := wall - 1 - len(used)
	most := max((free+len(own)+siblings+1)/2-siblings, len(own))
	// Count the numbers that the Service uses. The peak matters, because some items are opened before others are
	// closed.
	now, peak := len(own), 0
	for _, s := range steps {
		switch s.Kind {
		case OpenACL:
			if first := wallOf(l.Items, s.Access); s.ACLID == l.ListID && first > 0 && first <= wall {
				now++
			}
		case CloseACL:
			if own[s.ItemID] {
				now--
			}
		}
		peak = max(peak, now)
	}

	if peak > free+len(own) {
		now = peak
	} else if now <= most {
		return nil
	}

	return Refuse(ReasonSourceRanges,
		fmt.Sprintf("the source ranges need %s before number %d of network ACL list %s, which denies all: %d of "+
			"these numbers are free, of which the Service may take %d: a namespace gets half of what others leave",
			english.Plural(now, "item", ""), wall, cmp.Or(l.Name, l.ListID), free, most),
		"use ports that follow each other, which share an item, or give the item that denies all a higher number")
}

// deniesAll reports whether an item denies all sources one of the ports.
func (i *Item) deniesAll(f access.Range) bool {
	if i.Allow || !i.Ingress || !slices.Contains([]string{"all", f.Protocol, protocolNumbers[f.Protocol]}, i.Protocol) {
		return false
	}
	ports := i.StartPort == 0 && i.EndPort == 0 || i.StartPort <= f.EndPort && f.StartPort <= i.EndPort
	return ports && annotation.Contain(i.CIDRs, []string{"0.0.0.0/0"})
}

// protocolNumbers are the protocols by number, which an operator's item may use instead of the name.
var protocolNumbers = map[string]string{ProtocolTCP: "6", ProtocolUDP: "17"}

// acls plans the items of all lists: the desired ones in the tier's list, and none in any other list.
func (p *planner) acls(a Actual) {
	if a.ACLsUnread {
		return
	}

	a.ACLs = slices.Clone(a.ACLs)
	wanted := ""
	if !p.desired.Absent && p.desired.ACLID != "" {
		wanted = a.ACL(p.desired.ACLID).ListID
	}

	for _, l := range slices.SortedFunc(slices.Values(a.ACLs),
		func(x, y ACL) int { return strings.Compare(x.ListID, y.ListID) }) {
		own, on := rulesOf(owned(l.Items)), On{ACLID: l.ListID}
		if l.ListID == wanted {
			p.access(access.Plan(p.desired.aclPorts(), p.desired.Ranges, own, nil, false), on)
			p.tag(TagACL, on, owned(l.Items))
			continue
		}
		for _, f := range access.Sorted(own) {
			p.add(waveOldClose, on.closing(f))
		}
	}
}
