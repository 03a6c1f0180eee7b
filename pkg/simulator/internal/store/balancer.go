// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/tls"
	"slices"
)

// StickyPolicy is a stickiness policy of a load balancer rule, which keeps a client on one VM.
type StickyPolicy struct {
	Entity
	Rule                      *LBRule
	Name, Description, Method string
	Params                    map[string]string
	Hidden                    bool
	Pending                   bool // its job has not configured the router yet
}

// AddPolicy stores a policy. A rule may have two policies until the job of the newer one ends.
func (st *State) AddPolicy(p *StickyPolicy) {
	st.Policies.Add(p)
	p.Rule.Policies = append(p.Rule.Policies, p)
}

// DropPolicy deletes a policy permanently.
func (st *State) DropPolicy(p *StickyPolicy) {
	if p.Removed {
		return
	}
	st.Policies.Drop(p)
	p.Rule.Policies = slices.DeleteFunc(p.Rule.Policies, func(o *StickyPolicy) bool { return o == p })
}

// SSLCert is an uploaded certificate.
type SSLCert struct {
	Entity
	Name, Certificate, Fingerprint string
	Owner                          *Account
	Pair                           *tls.Certificate
}

// RulesWith returns the rules to which a certificate is bound.
func (st *State) RulesWith(cert *SSLCert) []*LBRule {
	var out []*LBRule
	for _, r := range st.LBRules.Rows {
		if r.Cert == cert {
			out = append(out, r)
		}
	}
	return out
}

// LBCapability returns the value of a capability of the network's load balancer.
func (n *Network) LBCapability(name string) (string, bool) {
	for _, s := range n.Offering.NetworkServices() {
		if s.Name != "Lb" {
			continue
		}
		for _, k := range s.Capabilities {
			if k.Name == name {
				return k.Value, true
			}
		}
	}
	return "", false
}
