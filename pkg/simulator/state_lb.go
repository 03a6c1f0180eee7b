// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/tls"
	"slices"
)

// stickyPolicy is a stickiness policy of a load balancer rule, which keeps a client on one VM.
type stickyPolicy struct {
	entity
	rule                      *lbRule
	name, description, method string
	params                    map[string]string
	hidden                    bool
	pending                   bool // its job has not configured the router yet
}

// addPolicy stores a policy. A rule may have two policies until the job of the newer one ends.
func (st *state) addPolicy(p *stickyPolicy) {
	st.policies.add(p)
	p.rule.policies = append(p.rule.policies, p)
}

// dropPolicy deletes a policy permanently.
func (st *state) dropPolicy(p *stickyPolicy) {
	if p.removed {
		return
	}
	st.policies.drop(p)
	p.rule.policies = slices.DeleteFunc(p.rule.policies, func(o *stickyPolicy) bool { return o == p })
}

// sslCert is an uploaded certificate. The key is validated at upload and never dumped: a simulator that starts from a
// dump cannot terminate TLS for the certificate's rules.
type sslCert struct {
	entity
	name, certificate, chain, fingerprint string
	hasChain                              bool
	owner                                 *account
	pair                                  *tls.Certificate // nil after a start from a dump
}

// rulesWith returns the rules to which a certificate is bound.
func (st *state) rulesWith(cert *sslCert) []*lbRule {
	var out []*lbRule
	for _, r := range st.lbRules.rows {
		if r.cert == cert {
			out = append(out, r)
		}
	}
	return out
}

// lbCapability returns the value of a capability of the network's load balancer.
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
