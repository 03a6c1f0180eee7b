// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// maxACLReason is the length that CloudStack has for an item's reason.
const maxACLReason = 255

// ACLReason marks an item of a Service. The reason is given with the creation,
// so that there is no moment in which the item has no owner, and no role needs
// to be allowed to tag.
func ACLReason(cluster string, svc Service) string {
	mark := aclMark(cluster, svc.UID)
	text := "Service " + svc.Key()
	if room := maxACLReason - len(mark) - 1; len(text) > room {
		text = text[:max(room, 0)]
	}
	return text + " " + mark
}

func aclMark(cluster, uid string) string { return "(csccm " + cluster + " " + uid + ")" }

// OwnsACLItem reports by its reason whether an item is the Service's, under one of the cluster's names.
func OwnsACLItem(reason string, clusters []string, uid string) bool {
	return slices.ContainsFunc(clusters, func(cluster string) bool { return strings.HasSuffix(reason, aclMark(cluster, uid)) })
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
func FreeNumber(items []ACLItem, f access.Range) (int, error) {
	used := map[int]bool{}
	last, wall := 0, 0
	for _, i := range items {
		used[i.Number] = true
		last = max(last, i.Number)
		if i.deniesAll(f) && (wall == 0 || i.Number < wall) {
			wall = i.Number
		}
	}
	if wall == 0 {
		return last + 1, nil
	}
	for n := wall - 1; n >= 1; n-- {
		if !used[n] {
			return n, nil
		}
	}
	return 0, fmt.Errorf("the network ACL list has no free number before item %d, which denies all", wall)
}

// deniesAll reports whether an item shuts everybody out of one of the ports.
func (i *ACLItem) deniesAll(f access.Range) bool {
	if i.Allow || !i.Ingress || !slices.Contains([]string{"all", f.Protocol, protocolNumber(f.Protocol)}, i.Protocol) {
		return false
	}
	ports := i.StartPort == 0 && i.EndPort == 0 || i.StartPort <= f.EndPort && f.StartPort <= i.EndPort
	return ports && access.Contain(i.CIDRs, []string{"0.0.0.0/0"})
}

func protocolNumber(protocol string) string {
	if protocol == ProtocolUDP {
		return "17"
	}
	return "6"
}

// acls plans the items of all lists: those wanted in one of them, and none in the others.
func (p *planner) acls(a Actual) {
	a.ACLs = slices.Clone(a.ACLs)
	wanted := ""
	if !p.desired.Absent && p.desired.ACLID != "" {
		wanted = a.acl(p.desired.ACLID).ListID
	}
	for _, l := range slices.SortedFunc(slices.Values(a.ACLs), func(x, y ACL) int { return strings.Compare(x.ListID, y.ListID) }) {
		var own []access.Rule
		for _, i := range l.Items {
			if i.Owner == Owned {
				own = append(own, i.Rule)
			}
		}
		open := func(f access.Range) Action { return OpenACL{ACLID: l.ListID, Firewall: f} }
		closed := func(f access.Rule) Action {
			return CloseACL{ACLID: l.ListID, FirewallID: f.ID, Firewall: f.Range}
		}
		if l.ListID == wanted {
			p.access(access.Plan(access.For(p.desired.aclPorts(), p.desired.Ranges), own, nil, false), open, closed)
			continue
		}
		for _, f := range own {
			p.add(waveOldClose, closed(f))
		}
	}
}
