// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/csccm/csccm/pkg/simulator"
)

// Status is the state of a data path.
type Status struct {
	Mode       string            `json:"mode"`
	Rules      []RuleStatus      `json:"rules"`
	Forwarding string            `json:"forwarding"` // relay or nftables
	Forwards   []ForwardStatus   `json:"forwards,omitempty"`
	Refused    []RefusalStatus   `json:"refused,omitempty"`
	Members    map[string]string `json:"members,omitempty"` // see Members
}

// RuleStatus is a rule with its counters since its listener was opened.
type RuleStatus struct {
	ID                    string         `json:"id"`
	Name                  string         `json:"name"`
	Public                string         `json:"public"`
	Listen                string         `json:"listen"`
	Mode                  string         `json:"mode"` // HAProxy's mode: tcp or http
	Algorithm             string         `json:"algorithm"`
	Connections           int64          `json:"connections"`
	Active                int64          `json:"active"`
	BytesIn               int64          `json:"bytesIn"`
	BytesOut              int64          `json:"bytesOut"`
	RefusedByFirewall     int64          `json:"refusedByFirewall"`
	RefusedBySourceRanges int64          `json:"refusedBySourceRanges"`
	NoMember              int64          `json:"noMember"` // only in mode tcp, like the counters of members
	Members               []MemberStatus `json:"members"`
}

// MemberStatus is a member with its counters.
type MemberStatus struct {
	VM          string `json:"vm"`
	Address     string `json:"address"`
	Dial        string `json:"dial"`
	Up          bool   `json:"up"`
	Check       string `json:"check,omitempty"` // result of the last check: ok or failed; empty before the first
	Connections int64  `json:"connections"`
	Failed      int64  `json:"failed"` // failed connection attempts
	Active      int64  `json:"active"`
	BytesIn     int64  `json:"bytesIn"`
	BytesOut    int64  `json:"bytesOut"`
}

// RefusalStatus is a rule whose current configuration is not in force.
type RefusalStatus struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Status returns the current state.
func (p *Path) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Mode: p.local.mode, Rules: []RuleStatus{}, Members: p.o.Members.Map()}
	for _, r := range sortedRules(p.rules) {
		s.Rules = append(s.Rules, r.status())
	}
	s.Forwarding, s.Forwards = p.forwards.mode, p.forwards.status()
	for _, f := range p.refused {
		s.Refused = append(s.Refused, RefusalStatus(f))
	}
	return s
}

// modes are HAProxy's modes. The key says whether HAProxy parses HTTP.
var modes = map[bool]string{false: "tcp", true: "http"}

func (r *rule) status() RuleStatus {
	conf := r.config()
	s := RuleStatus{
		ID:                    conf.ID,
		Name:                  conf.Name,
		Public:                conf.Public.String(),
		Listen:                r.listener.Addr().String(),
		Mode:                  modes[r.viaHAProxy(&conf)],
		Algorithm:             conf.Algorithm,
		Connections:           r.connections.Load(),
		Active:                r.active.Load(),
		BytesIn:               r.bytesIn.Load(),
		BytesOut:              r.bytesOut.Load(),
		RefusedByFirewall:     r.byFirewall.Load(),
		RefusedBySourceRanges: r.byRange.Load(),
		NoMember:              r.noMember.Load(),
		Members:               []MemberStatus{},
	}

	for _, m := range r.current() {
		m.mu.Lock()
		vm, up, check := m.vm, m.health.up(), m.check
		m.mu.Unlock()
		s.Members = append(s.Members, MemberStatus{
			VM:          vm,
			Address:     m.address.String(),
			Dial:        r.p.o.Members.dialAddress(m.address),
			Up:          up,
			Check:       check,
			Connections: m.connections.Load(),
			Failed:      m.failed.Load(),
			Active:      m.active.Load(),
			BytesIn:     m.bytesIn.Load(),
			BytesOut:    m.bytesOut.Load(),
		})
	}

	return s
}

// Listen returns the address on this machine for a public address with port, or false if no rule listens there. The
// name of a relayed port ends with its protocol: 203.0.113.20:53/udp.
func (p *Path) Listen(public string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.config().Public.String() == public {
			return r.listener.Addr().String(), true
		}
	}
	for key, r := range p.forwards.relays {
		if key.String() == public {
			return r.listen(), true
		}
	}
	return "", false
}

// Routes returns the data path's part of the admin API.
func (p *Path) Routes() []simulator.AdminRoute {
	return []simulator.AdminRoute{
		{Pattern: "GET /data-path", Answer: func(*http.Request) (any, error) { return p.Status(), nil }},
		{Pattern: "PUT /data-path/members", Answer: p.setMembers},
	}
}

const maxMembers = 1 << 20

func (p *Path) setMembers(r *http.Request) (any, error) {
	var to map[string]string
	if err := json.NewDecoder(io.LimitReader(r.Body, maxMembers)).Decode(&to); err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if err := p.o.Members.Set(to); err != nil {
		return nil, err
	}
	return map[string]any{"members": p.o.Members.Map()}, nil
}
