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

// maxACLReason is the length that CloudStack has for an item's reason.
const maxACLReason = 255

// ACLReason marks an item of a Service. The reason is given with the creation,
// so that there is no moment in which the item has no owner, and no role needs
// to be allowed to tag.
func ACLReason(cluster string, svc Service) string {
	mark := "(csccm " + cluster + " " + svc.UID + ")"
	text := "Service " + svc.Key()
	if room := maxACLReason - len(mark) - 1; len(text) > room {
		text = text[:max(room, 0)]
	}
	return text + " " + mark
}

// ACLOwner reads the owner out of a reason; ok is false when csccm did not write it.
func ACLOwner(reason string) (cluster, uid string, ok bool) {
	at := strings.LastIndex(reason, "(csccm ")
	if at < 0 || !strings.HasSuffix(reason, ")") {
		return "", "", false
	}
	words := reason[at+len("(csccm ") : len(reason)-1]
	last := strings.LastIndexByte(words, ' ') // a cluster's name may have blanks in it, a UID has none
	if last < 1 || last == len(words)-1 {
		return "", "", false
	}
	return words[:last], words[last+1:], true
}

// FreeNumber chooses the number of a new item: as late as it can be, so that what the operator denies in
// particular stays denied, but before the first item that denies everybody, behind which nothing is let in.
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

// wallOf returns the number of the first item that denies everybody one of the ports; 0 when there is none.
func wallOf(items []Item, f access.Range) int {
	wall := 0
	for i := range items {
		if items[i].deniesAll(f) && (wall == 0 || items[i].Number < wall) {
			wall = items[i].Number
		}
	}
	return wall
}

// CheckACL refuses a plan that needs more numbers of a network ACL list than the Service may take. Only the numbers
// before an item that denies everybody let somebody in. The Services of a namespace may take half of those that the
// items of others leave free, so that the next namespace finds room. A Service that has more already may keep them, and
// replace them.
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

// SharedACL says that the source ranges of an internal load balancer cannot be enforced: its network ACL list, which
// does not tell load balancers apart, lets other sources in to the same port of another Service. widens reports whether
// items of the Service would let in sources that they do not let in now.
func SharedACL(d Desired, lists ...ACL) (conflict *RefusalError, widens bool) {
	at := slices.IndexFunc(lists, func(l ACL) bool { return l.ListID == d.ACLID })
	if !d.Internal || len(d.Ranges) == 0 || at < 0 {
		return nil, false // without items and members nobody is let in
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
			fmt.Sprintf("the tier's network ACL list lets other sources in to port %d of another Service, and does "+
				"not tell internal load balancers apart", port),
			"use another port, or the same source ranges for both Services", port,
		)

		if widens = !annotation.Contain(own, d.Ranges); widens {
			break
		}
	}

	return conflict, widens
}

// room refuses a plan that needs too many numbers before an item that denies everybody; 0 for no such item.
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
	now, peak := len(own), 0 // how many of the numbers the Service has: some items are opened before others are closed
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

// deniesAll reports whether an item shuts everybody out of one of the ports.
func (i *Item) deniesAll(f access.Range) bool {
	if i.Allow || !i.Ingress || !slices.Contains([]string{"all", f.Protocol, protocolNumbers[f.Protocol]}, i.Protocol) {
		return false
	}
	ports := i.StartPort == 0 && i.EndPort == 0 || i.StartPort <= f.EndPort && f.StartPort <= i.EndPort
	return ports && annotation.Contain(i.CIDRs, []string{"0.0.0.0/0"})
}

// protocolNumbers is how an operator's item may name a protocol.
var protocolNumbers = map[string]string{ProtocolTCP: "6", ProtocolUDP: "17"}

// acls plans the items of all lists: those wanted in one of them, and none in the others.
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
