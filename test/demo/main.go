// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows csccm on this machine: a simulated CloudStack, a real Kubernetes control plane, three nodes,
// `csccm install` and its results. Everything runs as child processes on loopback and in one temporary folder.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/ui/server"
	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

//go:embed demo.yaml
var script []byte

var stay = flag.Bool("stay", console.Terminal(),
	"keep everything running after the last step until ^C; default: on a terminal")

func main() { os.Exit(console.Main("demo", script, play)) }

type demo struct {
	*console.Player
	simulator *testenv.Simulator
}

func play(ctx context.Context, p *console.Player) {
	d := &demo{Player: p}
	p.Verbs = map[string]console.Verb{
		"build":      d.build,
		"cluster":    d.cluster,
		"cloudstack": d.cloudstack,
		"rules":      d.rules,
	}
	p.Play(ctx)
	if *stay {
		d.stay(ctx)
	}
}

func (d *demo) build(ctx context.Context, _ string, _ []string) string {
	d.Build(ctx)
	return ""
}

func (d *demo) cluster(ctx context.Context, _ string, _ []string) string {
	cluster := d.Start(ctx, "", 0)
	for _, o := range testenv.ExampleNodes() {
		must.Get(cluster.Join(ctx, o))
	}
	return ""
}

func (d *demo) cloudstack(ctx context.Context, _ string, _ []string) string {
	args := []string{"--world", filepath.Join(d.Dir, "world.yaml")}
	if *stay {
		args = append(args, "--ui") // stay opens the simulator's page
	}
	d.simulator = must.Get(testenv.StartSimulator(ctx, d.Binaries.Simulator, d.Dir, args...))
	d.Defer(d.simulator.Stop)
	d.Log("cloudstack-sim", d.simulator.Log)
	return d.simulator.URL
}

// config returns the cloud-config that csccm install wrote for the controller.
func (d *demo) config(ctx context.Context) *cloudstack.Config {
	secrets := d.Clusters[""].Client.CoreV1().Secrets(metav1.NamespaceSystem)
	secret := must.Get(secrets.Get(ctx, "cloudstack-secret", metav1.GetOptions{}))
	return must.Get(cloudconfig.Parse(bytes.NewReader(secret.Data["cloud-config"])))
}

// rules returns a table of all load balancer rules of the account, with the CIDRs that the firewall allows.
func (d *demo) rules(ctx context.Context, _ string, _ []string) string {
	client := must.Get(cloudstack.NewClient(d.config(ctx)))
	defer client.CloseIdleConnections()
	t := report.Table{Header: []string{"RULE", "PUBLIC", "TO", "PROTOCOL", "OPEN TO", "MEMBERS"}}
	for _, r := range must.Get(testenv.Rules(ctx, client, "")) {
		var from []string
		for _, f := range must.Get(client.ListFirewallRules(ctx,
			cloudstack.FirewallRuleQuery{PublicIPID: r.PublicIPID})) {
			if f.StartPort <= r.PublicPort && r.PublicPort <= f.EndPort {
				from = append(from, f.CIDRs...)
			}
		}
		t.Add(r.Name, fmt.Sprintf("%s:%d", r.PublicIP, r.PublicPort), fmt.Sprint(r.PrivatePort),
			cmp.Or(r.Protocol, "(none)"), strings.Join(from, ","), strings.Join(r.Members, ","))
	}

	var out strings.Builder
	must.OK(t.Write(&out, d.Style))
	return strings.TrimSuffix(out.String(), "\n")
}

// stay prints what to try, and opens the simulator's page on Enter, until ^C.
func (d *demo) stay(ctx context.Context) {
	config, cluster := d.config(ctx), d.Clusters[""]
	d.Printf("\nEverything keeps running until ^C. In another terminal:\n\n")
	d.Printf("export KUBECONFIG=%s PATH=%s:%s:$PATH\n",
		cluster.Kubeconfig, filepath.Dir(cluster.Kubectl), filepath.Dir(d.Binaries.CLI))
	d.Printf("export CLOUDSTACK_API_URL=%s CLOUDSTACK_API_KEY=%s CLOUDSTACK_SECRET_KEY=%s   # or admin, password "+
		"password\n", config.APIURL, config.APIKey, config.SecretKey)
	if console.Terminal() {
		d.Printf("\nPress Enter to see the simulated CloudStack in a browser: its objects, its calls, faults to " +
			"switch on.\n" +
			"The cluster in its cloud is shown by: csccm ui\n")
	}

	for d.Enter(ctx) {
		d.Printf("%s\nIf no browser opens: the address is for one browser on this machine.\n", d.simulator.Page)
		remove, err := server.Open(ctx, d.simulator.Page)
		d.Defer(remove)
		if err != nil {
			d.Printf("%v\n", err)
		}
	}

	<-ctx.Done()
	d.Printf("\nStopping.\n")
}
