// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
)

func (in *Installer) printPlan() error {
	if in.env.Structured() {
		return report.Encode(in.Out, in.Options.Output, in.plan)
	}
	return in.printText(in.Out)
}

func (in *Installer) printText(w io.Writer) error {
	p := in.plan
	var b strings.Builder
	fmt.Fprintf(&b, "Plan for %s (%s), Kubernetes %s, %s:\n", p.Cluster.Context, p.Cluster.Server, p.Cluster.Version, count(p.Cluster.Nodes, "node"))
	for _, s := range p.CloudStack.Done {
		fmt.Fprintf(&b, "  CloudStack  done: %s\n", s)
	}
	for _, s := range p.CloudStack.Steps {
		fmt.Fprintf(&b, "  CloudStack  %s\n", s)
	}
	fmt.Fprintf(&b, "  Secret      %s %s/%s\n", p.Secret.Action, p.Secret.Namespace, p.Secret.Name)
	for _, d := range p.Secret.Differences {
		fmt.Fprintf(&b, "              - %s\n", d)
	}
	from := ""
	if p.Chart.From != "" && p.Chart.Action == "upgrade" {
		from = " from " + p.Chart.From
	}
	fmt.Fprintf(&b, "  Helm        %s release %s/%s%s: chart %s %s, controller %s\n",
		p.Chart.Action, p.Chart.Namespace, p.Chart.Release, from, p.Chart.Chart, p.Chart.Version, p.Chart.AppVersion)
	for _, line := range flatten("", p.Chart.Values) {
		fmt.Fprintf(&b, "              %s\n", line)
	}
	b.WriteString(diff.Text(p.Objects, "              "))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	b.Reset()
	if p.Takeover != nil {
		if err := in.printTakeover(w); err != nil {
			return err
		}
	}
	b.WriteString(describeTenants(p.Tenants))
	switch {
	case in.Options.SkipTaint:
		fmt.Fprintf(&b, "  Nodes       left as they are (--skip-taint); csccm taint%s has them initialised later\n", in.namespaceFlag())
	case p.Nodes == nil:
		fmt.Fprintf(&b, "  Nodes       planned once the credentials are there\n")
	default:
		b.WriteString(describeNodes(p.Nodes))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (in *Installer) printTakeover(w io.Writer) error {
	if _, err := io.WriteString(w, "  Takeover    in the place of another provider; its Services keep addresses and rules:\n"); err != nil {
		return err
	}
	if err := in.plan.Takeover.WriteText(w, in.env.StyleOf(w)); err != nil {
		return err
	}
	if in.taker == nil {
		_, err := io.WriteString(w, "What changes of which Service is planned once the credentials are there.\n")
		return err
	}
	end := "removed"
	if in.Options.KeepOld {
		end = "kept, with no Pods"
	}
	_, err := fmt.Fprintf(w, "In the end the old controller is %s.\n", end)
	return err
}

func describeNodes(p *taint.Plan) string {
	var b strings.Builder
	for _, it := range p.Items {
		what := map[taint.State]string{
			taint.StateDone:    "is initialised",
			taint.StateWaiting: "waits for the controller",
			taint.StateForeign: "keeps its provider ID",
			taint.StateNeeds:   "is initialised by a taint (PreferNoSchedule)",
		}[it.State]
		if it.Name == p.Canary {
			what += ", first"
		}
		fmt.Fprintf(&b, "  Node        %s %s; VM %s, zone %s, %s\n", it.Name, what, orNone(it.VM), orNone(it.Zone), orNone(it.Type))
		for _, n := range it.Notes {
			fmt.Fprintf(&b, "              ! %s\n", n)
		}
	}
	return b.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// flatten shows values as --set writes them.
func flatten(prefix string, values map[string]any) []string {
	var out []string
	for key, v := range values {
		if m, ok := v.(map[string]any); ok {
			out = append(out, flatten(prefix+key+".", m)...)
			continue
		}
		out = append(out, fmt.Sprintf("%s%s=%v", prefix, key, v))
	}
	slices.Sort(out)
	return out
}
