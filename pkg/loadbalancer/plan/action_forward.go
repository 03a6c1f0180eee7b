// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/plural"
)

// OnForward names the port forwarding that an action works on; the id is empty for one that the plan creates.
type OnForward struct {
	OnAddress
	ForwardID string `json:"forwardID,omitempty"`
	Protocol  string `json:"protocol"`
	Port      int    `json:"port"`
}

func (o OnForward) onForward() OnForward { return o }

// Text names the port, as "53/udp".
func (o OnForward) Text() string { return portText(o.Protocol, o.Port) }

// OnForward returns the port forwarding that the action works on; ok is false where it works on none.
func (s Step) OnForward() (on OnForward, ok bool) {
	a, ok := s.Action.(interface{ onForward() OnForward })
	if ok {
		on = a.onForward()
	}
	return on, ok
}

// from writes the sources of a port forwarding that has some.
func from(cidrs []string) string {
	if len(cidrs) == 0 {
		return ""
	}
	return " for " + strings.Join(cidrs, ",")
}

// CreateForward forwards a port of an address to a member.
type CreateForward struct {
	creation
	OnForward
	NetworkID   string   `json:"networkID,omitempty"`
	PrivatePort int      `json:"privatePort"`
	Member      string   `json:"member"`
	CIDRs       []string `json:"cidrs,omitempty"`
}

func (CreateForward) kind() string { return "create-forward" }

func (a CreateForward) label() string {
	return fmt.Sprintf("forward port %s%s to node port %d of %s%s", a.Text(), a.text(), a.PrivatePort, a.Member, from(a.CIDRs))
}

func (a CreateForward) effect(before Actual, o Outcome) Actual {
	return a.changed(before, func(x *Address) {
		x.Forwards = append(x.Forwards, Forward{
			ID: o.ID, Protocol: a.Protocol, StartPort: a.Port, EndPort: a.Port, Owner: Owned,
			Member: a.Member, PrivatePort: a.PrivatePort, CIDRs: a.CIDRs,
		})
	})
}

// UpdateForward changes a port forwarding in place. What is empty stays.
type UpdateForward struct {
	change
	OnForward
	PrivatePort int      `json:"privatePort,omitempty"`
	Member      string   `json:"member,omitempty"`
	From        string   `json:"from,omitempty"` // the member that it leaves
	CIDRs       []string `json:"cidrs,omitempty"`
}

func (UpdateForward) kind() string { return "update-forward" }

func (a UpdateForward) label() string {
	text := "change the forwarding of port " + a.Text() + a.text()
	if a.Member != "" {
		text += " to " + a.Member
	}
	if a.PrivatePort != 0 {
		text += fmt.Sprintf(" to node port %d", a.PrivatePort)
	}
	return text + from(a.CIDRs)
}

func (a UpdateForward) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) {
		for i := range x.Forwards {
			f := &x.Forwards[i]
			if f.ID != a.ForwardID {
				continue
			}
			f.State = ""
			if a.Member != "" {
				f.Member = a.Member
			}
			if a.PrivatePort != 0 {
				f.PrivatePort = a.PrivatePort
			}
			if len(a.CIDRs) > 0 {
				f.CIDRs = a.CIDRs
			}
		}
	})
}

// DeleteForward deletes a port forwarding.
type DeleteForward struct {
	removal
	OnForward
	Note string `json:"note,omitempty"` // why, where that is not plain
}

func (DeleteForward) kind() string { return "delete-forward" }
func (a DeleteForward) label() string {
	return "delete the forwarding of port " + a.Text() + a.text() + because(a.Note)
}
func (a DeleteForward) removes() string { return a.ForwardID }

func (a DeleteForward) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) {
		x.Forwards = slices.DeleteFunc(x.Forwards, func(f Forward) bool { return f.ID == a.ForwardID })
	})
}

// TagForwards tags all own port forwardings that have no tags.
type TagForwards struct {
	change
	OnAddress
	Forwards int `json:"forwards"`
}

func (TagForwards) kind() string { return "tag-forwards" }
func (a TagForwards) label() string {
	return "tag " + plural.Count(a.Forwards, "port forwarding") + a.text()
}

func (a TagForwards) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) {
		for i := range x.Forwards {
			x.Forwards[i].Tagged = x.Forwards[i].Tagged || x.Forwards[i].Owner == Owned
		}
	})
}
