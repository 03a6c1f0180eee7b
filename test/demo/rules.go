// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/testenv"
)

const (
	secretName = "cloudstack-secret" // #nosec G101 -- a name
	secretKey  = "cloud-config"      // #nosec G101 -- the name of a key
)

// cloudConfig returns the cloud-config that csccm install wrote for the controller.
func (d *demo) cloudConfig(ctx context.Context) (*cloudstack.Config, error) {
	secret, err := d.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return cloudconfig.Parse(bytes.NewReader(secret.Data[secretKey]))
}

// client calls the API with the controller's keys.
func (d *demo) client(ctx context.Context) (*cloudstack.Client, error) {
	config, err := d.cloudConfig(ctx)
	if err != nil {
		return nil, err
	}
	return cloudstack.NewClient(config)
}

// rules returns the rules of one public address, or of all addresses for "".
func (d *demo) rules(ctx context.Context, address string) ([]testenv.Rule, error) {
	client, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	rules, err := testenv.Rules(ctx, client, address)
	slices.SortFunc(rules, func(a, b testenv.Rule) int {
		return cmp.Or(strings.Compare(a.PublicIP, b.PublicIP), cmp.Compare(a.PublicPort, b.PublicPort))
	})
	return rules, err
}

// showRules prints all load balancer rules of the account as a table, with the CIDRs that the firewall lets in.
func (d *demo) showRules(ctx context.Context) error {
	client, err := d.client(ctx)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	rules, err := d.rules(ctx, "")
	if err != nil {
		return err
	}
	d.Printf("\n%s\n", d.Style.Paint(report.Strong, "In CloudStack (listLoadBalancerRules, listLoadBalancerRuleInstances, listFirewallRules):"))
	t := report.Table{Header: []string{"RULE", "PUBLIC", "TO", "PROTOCOL", "OPEN TO", "MEMBERS"}}
	for _, r := range rules {
		access, err := client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: r.PublicIPID})
		if err != nil {
			return err
		}
		var from []string
		for _, f := range access {
			if f.StartPort <= r.PublicPort && r.PublicPort <= f.EndPort {
				from = append(from, f.CIDRs...)
			}
		}
		t.Add(r.Name, fmt.Sprintf("%s:%d", r.PublicIP, r.PublicPort), fmt.Sprint(r.PrivatePort), cmp.Or(r.Protocol, "(none)"),
			strings.Join(from, ","), strings.Join(r.Members, ","))
	}
	return t.Write(terminal.Writer(d.Out), d.Style)
}
