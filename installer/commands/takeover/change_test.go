// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// changesOf lists what a plan does for a Service, as "sign kind".
func changesOf(p *Plan, service string) []string {
	var out []string
	for i := range p.Services {
		for j := range p.Services[i].Changes {
			if c := &p.Services[i].Changes[j]; p.Services[i].Service == service {
				out = append(out, c.sign()+" "+c.Kind)
			}
		}
	}
	return out
}

// Every object that is made, changed or deleted is shown, also where no user would notice.
func TestPlanShowsEveryChange(t *testing.T) {
	t.Parallel()
	p := NewPlan(newBed(t, leftby.Apache).facts(t))
	require.Equal(t, []string{"~ remember-address", "+ open-firewall", "- close-firewall", "~ tag-rules"}, changesOf(p, "default/cidrs"),
		"the firewall rule is replaced by one of the ranges that the load balancer rule already has")
	require.Equal(t, []string{"~ remember-address", "~ update-rule", "~ tag-rules"}, changesOf(p, "default/documented"))
	var text strings.Builder
	require.NoError(t, p.WriteText(&text, report.Style{}))
	require.Contains(t, text.String(), "4 changes\n")
	require.Contains(t, text.String(), "3 changes, need consent\n")
	require.Contains(t, text.String(), `Changes of default/cidrs:
  ~ record address 192.168.2.12 on the Service
  + open port 8443 on 192.168.2.12 to 10.0.0.0/8,172.16.0.0/12
  - close port 8443 on 192.168.2.12 for 0.0.0.0/0
  ~ tag 1 rule on 192.168.2.12
`)

	p = NewPlan(newBed(t, leftby.Leaseweb).facts(t))
	require.Equal(t, []string{"~ rename-rule", "~ rename-rule", "~ remember-address", "~ tag-rules"}, changesOf(p, "default/web"))
}

// With --pin the plan is the one that the controller then makes.
func TestPlanShowsChangesOfPins(t *testing.T) {
	t.Parallel()
	p := NewPlan(newBed(t, leftby.Apache).facts(t))
	p.Pin([]string{"default/cidrs", "default/documented"})
	require.Equal(t, []string{"~ annotate-service", "~ remember-address", "~ tag-rules"}, changesOf(p, "default/documented"))
	require.Equal(t, []string{"~ remember-address", "+ open-firewall", "- close-firewall", "~ tag-rules"}, changesOf(p, "default/cidrs"), "there is nothing to keep")
	var text strings.Builder
	require.NoError(t, p.WriteText(&text, report.Style{}))
	require.NotContains(t, text.String(), "need consent")
	require.Contains(t, text.String(), "but for the annotation that --pin sets: service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol=\"false\"")
}

// Items of network ACL lists are part of the plan where the role may read them.
func TestPlanShowsACLItems(t *testing.T) {
	t.Parallel()
	facts := func() *Facts {
		f := newBed(t, leftby.Apache).facts(t)
		for id, n := range f.Networks {
			n.VPCID, n.ACLID, n.ACLName, n.Firewall = "vpc", "list", "k8s", false
			f.Networks[id] = n
		}
		f.Firewall = nil
		return f
	}
	require.Contains(t, changesOf(NewPlan(facts()), "default/web"), "+ open-acl")
	refused := facts()
	refused.aclsRefused = &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listNetworkACLs"}
	require.NotContains(t, changesOf(NewPlan(refused), "default/web"), "+ open-acl")
}
