// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

const (
	secretName = "cloudstack-secret" // #nosec G101 -- a name
	secretKey  = "cloud-config"      // #nosec G101 -- the name of a key
)

// cloudConfig returns the cloud-config that csccm install wrote for the controller.
func (d *demo) cloudConfig(ctx context.Context) *cloudstack.Config {
	secret := must.Get(d.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{}))
	return must.Get(cloudconfig.Parse(bytes.NewReader(secret.Data[secretKey])))
}

// client calls the API with the controller's keys.
func (d *demo) client(ctx context.Context) *cloudstack.Client {
	config := d.cloudConfig(ctx)
	return must.Get(cloudstack.NewClient(config))
}

// rules returns the rules of one public address, or of all addresses for "".
func (d *demo) rules(ctx context.Context, address string) []testenv.Rule {
	client := d.client(ctx)
	defer client.CloseIdleConnections()
	return must.Get(testenv.Rules(ctx, client, address))
}

// showRules prints all load balancer rules of the account as a table, with the CIDRs that the firewall lets in.
func (d *demo) showRules(ctx context.Context) {
	client := d.client(ctx)
	defer client.CloseIdleConnections()
	rules := d.rules(ctx, "")
	d.Printf("\n%s\n", d.Style.Paint(report.Strong, "In CloudStack (listLoadBalancerRules, listLoadBalancerRuleInstances, listFirewallRules):"))
	t := report.Table{Header: []string{"RULE", "PUBLIC", "TO", "PROTOCOL", "OPEN TO", "MEMBERS"}}
	for _, r := range rules {
		access := must.Get(client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: r.PublicIPID}))
		var from []string
		for _, f := range access {
			if f.StartPort <= r.PublicPort && r.PublicPort <= f.EndPort {
				from = append(from, f.CIDRs...)
			}
		}
		t.Add(r.Name, fmt.Sprintf("%s:%d", r.PublicIP, r.PublicPort), fmt.Sprint(r.PrivatePort), cmp.Or(r.Protocol, "(none)"),
			strings.Join(from, ","), strings.Join(r.Members, ","))
	}
	must.OK(t.Write(terminal.Writer(d.Out), d.Style))
}
