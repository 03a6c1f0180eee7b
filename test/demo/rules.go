// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/test/testenv"
)

const (
	secretName = "cloudstack-secret" // #nosec G101 -- a name
	secretKey  = "cloud-config"      // #nosec G101 -- the name of a key
)

// rule is a load balancer rule with its members and its firewall's CIDRs.
type rule struct {
	cloudstack.LoadBalancerRule
	members  string
	firewall string
}

// cloudConfig returns the cloud-config that csccm install wrote for the controller.
func (d *demo) cloudConfig(ctx context.Context) (*cloudstack.Config, error) {
	secret, err := d.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return cloudconfig.Parse(bytes.NewReader(secret.Data[secretKey]))
}

// rules returns the rules of one public address, or of all addresses for "". It calls
// the API with the controller's keys.
func (d *demo) rules(ctx context.Context, address string) ([]rule, error) {
	config, err := d.cloudConfig(ctx)
	if err != nil {
		return nil, err
	}
	client, err := cloudstack.NewClient(config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	list, err := testenv.Rules(ctx, client, address)
	if err != nil {
		return nil, err
	}
	var rules []rule
	for _, r := range list {
		access, err := client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: r.PublicIPID})
		if err != nil {
			return nil, err
		}
		var from []string
		for _, f := range access {
			if f.StartPort <= r.PublicPort && r.PublicPort <= f.EndPort {
				from = append(from, f.CIDRs...)
			}
		}
		rules = append(rules, rule{r.LoadBalancerRule, strings.Join(r.Members, ","), strings.Join(from, ",")})
	}
	slices.SortFunc(rules, func(a, b rule) int {
		return strings.Compare(fmt.Sprintf("%s:%05d", a.PublicIP, a.PublicPort), fmt.Sprintf("%s:%05d", b.PublicIP, b.PublicPort))
	})
	return rules, nil
}

// showRules prints all load balancer rules of the account as a table.
func (d *demo) showRules(ctx context.Context) error {
	rules, err := d.rules(ctx, "")
	if err != nil {
		return err
	}
	d.printf("\n%s\n", d.style.Paint(report.Strong, "In CloudStack (listLoadBalancerRules, listLoadBalancerRuleInstances, listFirewallRules):"))
	t := report.Table{Header: []string{"RULE", "PUBLIC", "TO", "PROTOCOL", "OPEN TO", "MEMBERS"}}
	for _, r := range rules {
		protocol := r.Protocol
		if protocol == "" {
			protocol = "(none)"
		}
		t.Add(r.Name, fmt.Sprintf("%s:%d", r.PublicIP, r.PublicPort), fmt.Sprint(r.PrivatePort), protocol, r.firewall, r.members)
	}
	return t.Write(d.out, d.style)
}
