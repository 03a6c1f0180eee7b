// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/tls"
	"slices"
)

// stickyPolicy says how a load balancer rule keeps a client on one VM.
type stickyPolicy struct {
	entity
	rule                      *lbRule
	name, description, method string
	params                    map[string]string
	hidden                    bool
	pending                   bool // its job has not told the router yet
}

// addPolicy stores a policy. The rule may have two until the job of the newer one ends.
func (st *state) addPolicy(p *stickyPolicy) {
	st.policies.add(p)
	p.rule.policies = append(p.rule.policies, p)
}

// dropPolicy deletes a policy for good.
func (st *state) dropPolicy(p *stickyPolicy) {
	if p.removed {
		return
	}
	st.policies.drop(p)
	p.rule.policies = slices.DeleteFunc(p.rule.policies, func(o *stickyPolicy) bool { return o == p })
}

// sslCert is an uploaded certificate. The key is checked on arrival and kept in
// no dump: a simulator that starts with one cannot end TLS for its rules.
type sslCert struct {
	entity
	name, certificate, chain, fingerprint string
	hasChain                              bool
	owner                                 *account
	pair                                  *tls.Certificate // nil after a start with a dump
}

// rulesWith lists the rules that a certificate is bound to.
func (st *state) rulesWith(cert *sslCert) []*lbRule {
	var out []*lbRule
	for _, r := range st.lbRules.rows {
		if r.cert == cert {
			out = append(out, r)
		}
	}
	return out
}

// lbCapability is a capability of the network's load balancer.
func (n *network) lbCapability(name string) (string, bool) {
	for _, s := range n.offering.networkServices() {
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
