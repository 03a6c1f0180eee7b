// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
)

// keeping is what becomes of a rule among the rules of one port of one load balancer.
type keeping struct {
	state  keepState
	keeper string // id of the rule that stays, of a surplus one
	reason string
}

type keepState int

const (
	alone     keepState = iota // the only one of its port, or the one that stays
	surplus                    // goes once the keeper serves
	undecided                  // a duplicate that people must look at
)

// chooseKeepers decides about ports that several rules serve, which older providers leave behind
// when an address or a name changed. Clients come to the address in the Service's status: the rule
// there stays. Only what a Service of this cluster owns is decided.
func chooseKeepers(rules []Rule, targets []target, served map[string][]int, o owners, nodeVMs map[string]bool) map[int]keeping {
	out := map[int]keeping{}
	for _, same := range served {
		if len(same) < 2 {
			continue
		}
		keeper, why := chooseKeeper(rules, targets, same, o, nodeVMs)
		for _, i := range same {
			var others []string
			for _, j := range same {
				if j != i {
					others = append(others, fmt.Sprintf("%s on %s", rules[j].Name, rules[j].PublicIP))
				}
			}
			list := "another rule serves the same port of the same load balancer: " + strings.Join(others, ", ")
			switch {
			case keeper < 0:
				out[i] = keeping{undecided, "", list + "; " + why}
			case i == keeper:
				out[i] = keeping{alone, "", "stays; " + list}
			default:
				out[i] = keeping{surplus, rules[keeper].ID, fmt.Sprintf("%s, which stays: %s", list, why)}
			}
		}
	}
	return out
}

func chooseKeeper(rules []Rule, targets []target, same []int, o owners, nodeVMs map[string]bool) (keeper int, why string) {
	s := o.byName[targets[same[0]].service]
	if s == nil {
		return -1, "no Service of this cluster tells which of them counts"
	}
	var there []int
	for _, i := range same {
		if hasAddress(s, rules[i].PublicIP) {
			there = append(there, i)
		}
	}
	why = "its address is the Service's"
	if len(there) == 0 {
		if hasStatus(s) {
			return -1, "none is on the address of Service " + targets[same[0]].service
		}
		there, why = same, "it serves best, and the Service has no address yet"
	}
	best := slices.MaxFunc(there, func(a, b int) int {
		if c := worth(&rules[a], nodeVMs) - worth(&rules[b], nodeVMs); c != 0 {
			return c
		}
		return strings.Compare(rules[b].ID, rules[a].ID) // one of them, always the same
	})
	for _, i := range there {
		if rules[i].PublicIP != rules[best].PublicIP && hasAddress(s, rules[i].PublicIP) {
			return -1, "both addresses are in the Service's status"
		}
	}
	if len(rules[best].Members) == 0 && slices.ContainsFunc(same, func(i int) bool { return len(rules[i].Members) > 0 }) {
		return -1, "the one on the Service's address has no members and the other has: let the controller fill it first"
	}
	return best, why
}

// worth orders rules by how well they serve: by state, then nodes among the members, then name.
func worth(r *Rule, nodeVMs map[string]bool) int {
	n := 2 * ourMembers(r, nodeVMs)
	if r.State == stateActive {
		n += 1 << 20
	}
	if ParseName(r.Name).Family == FamilyUpstream {
		n++
	}
	return n
}

// stateActive is CloudStack's state of a rule that the router carries.
const stateActive = "Active"
