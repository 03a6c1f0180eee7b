// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"sync/atomic"

	"github.com/csccm/csccm/pkg/annotation"
)

// Subject is the Service that is worked on. Observing, planning and applying have it in common.
type Subject struct {
	Service Service
	Spec    annotation.Spec
	Desired Desired
	// Members serve; Reach are all nodes that may serve, if Members are only those that do now.
	Members, Reach []Member
	// Unfit are names of nodes to which no port may be forwarded now, with the reason.
	Unfit map[string]string
	// Project is the one to work in; OwnProject the same if the Service names it, as records have it.
	Project, OwnProject string
	// Clusters are the names of this cluster, the current one first.
	Clusters []string
	// Written are source ranges that were written to rules, by id, and not read back.
	Written map[string]Written
	Notify  func(Notice)
}

// Limits are what the server or the role does not do.
type Limits struct {
	// NoTags: the role may not tag.
	NoTags bool
	// LeaveACLs: network ACL lists are left alone, as the role may not list them, or by a setting.
	LeaveACLs bool
	// NoCIDRUpdate: the server ignores cidrlist in updateLoadBalancerRule (before 4.22).
	NoCIDRUpdate bool
	// NoCIDRs: the server has no cidrlist at all (before 4.18).
	NoCIDRs bool
	// CIDRsProven: a rule with cidrlist was read, so the server has it.
	CIDRsProven bool

	// Unclaimed leaves claims out; tests show with it that they are needed.
	Unclaimed bool
}

// Server is what is known of the server and the role beforehand, and what was learned. The Services share it.
type Server struct {
	Known Limits

	NoTags, NoACLs                 atomic.Bool
	NoCIDRUpdate, CIDRUpdateProven atomic.Bool
	NoCIDRs, CIDRsProven           atomic.Bool
}

// Limits are the limits as known now.
func (s *Server) Limits() Limits {
	out := s.Known
	out.NoTags = out.NoTags || s.NoTags.Load()
	out.LeaveACLs = out.LeaveACLs || s.NoACLs.Load()
	out.NoCIDRUpdate = out.NoCIDRUpdate || s.NoCIDRUpdate.Load() && !s.CIDRUpdateProven.Load()
	out.NoCIDRs = out.NoCIDRs || s.NoCIDRs.Load() && !s.CIDRsProven.Load()
	out.CIDRsProven = out.CIDRsProven || s.CIDRsProven.Load()
	return out
}
