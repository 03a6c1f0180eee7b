// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// extraRead is what the list of rules does not show of a rule.
type extraRead struct {
	stickiness  *annotation.Stickiness
	policyID    string
	certificate string
	at          memberRead
}

// readExtras reads stickiness and certificate of a rule that may have some: as remembered, else one call each.
func (r *Reconciler) readExtras(ctx context.Context, t *task, rule *ActualRule, sticky bool) error {
	tls := rule.Protocol == ProtocolSSL
	if !sticky && !tls {
		return nil
	}
	known, ok := t.mem.extras[rule.ID]
	if !ok || t.verify || (r.options.MemberPeriod != 0 && r.options.Clock.Since(known.at.at) >= r.options.MemberPeriod) {
		known = extraRead{at: memberRead{at: r.options.Clock.Now()}}
		if sticky {
			policies, err := r.api.ListStickinessPolicies(ctx, rule.ID)
			if err != nil {
				return fmt.Errorf("read the stickiness of rule %s: %w", rule.Name, err)
			}
			if n := len(policies); n > 0 {
				p := policies[n-1]
				known.stickiness, known.policyID = &annotation.Stickiness{Method: p.Method, Params: p.Params}, p.ID
			}
		}
		if tls {
			certificates, err := r.api.ListCertificatesOfRule(ctx, rule.ID)
			if err != nil && !cloudstack.IsNotFound(err) {
				return fmt.Errorf("read the certificate of rule %s: %w", rule.Name, err)
			}
			if len(certificates) > 0 {
				known.certificate = certificates[0]
			}
		}
		t.mem.extras[rule.ID] = known
	}
	rule.Stickiness, rule.PolicyID, rule.Certificate = known.stickiness, known.policyID, known.certificate
	return nil
}
