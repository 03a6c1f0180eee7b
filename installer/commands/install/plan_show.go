// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

func (in *Installer) printPlan() error {
	if in.Structured() {
		return report.Encode(in.Out, in.Output, in.plan)
	}
	return in.printText(in.Out)
}

func (in *Installer) printText(w io.Writer) error {
	p := in.plan
	var b strings.Builder
	fmt.Fprintf(&b, "Plan for %s (%s), Kubernetes %s, %s:\n", p.Cluster.Context, p.Cluster.Server, p.Cluster.Version, english.Plural(p.Cluster.Nodes, "node", ""))
	for _, s := range p.CloudStack.Done {
		fmt.Fprintf(&b, "  CloudStack  done: %s\n", terminal.Line(s))
	}
	for _, s := range p.CloudStack.Steps {
		fmt.Fprintf(&b, "  CloudStack  %s\n", terminal.Line(s))
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
	fmt.Fprintf(&b, "  Pods        %s\n", p.Chart.Placement)
	b.WriteString(diff.Text(p.Objects, "              ", in.Verbose))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	b.Reset()
	if p.Takeover != nil {
		if err := in.printTakeover(w); err != nil {
			return err
		}
	}
	if len(p.Tenants) > 0 {
		b.WriteString("  Tenants     the policy (chart value tenancy) and what Services use now:\n")
		for i := range p.Tenants {
			fmt.Fprintf(&b, "              ! %s\n", &p.Tenants[i])
		}
	}
	switch {
	case in.SkipTaint:
		b.WriteString(in.StyleOf(w).Commands("  Nodes       left as they are (--skip-taint); csccm taint has them initialised later\n"))
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
	if err := in.plan.Takeover.WriteText(w, in.StyleOf(w)); err != nil {
		return err
	}
	if in.taker == nil {
		_, err := io.WriteString(w, "What changes of which Service is planned once the credentials are there.\n")
		return err
	}
	_, err := io.WriteString(w, "In the end the old controller is kept, with no Pods.\n")
	return err
}

func describeNodes(p *taint.Plan) string {
	const none = "none"
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
		text := fmt.Sprintf("%s %s; VM %s, zone %s, %s", it.Name, what, cmp.Or(it.VM, none), cmp.Or(it.Zone, none), cmp.Or(it.Type, none))
		fmt.Fprintf(&b, "  Node        %s\n", terminal.Line(text))
		for _, n := range it.Notes {
			fmt.Fprintf(&b, "              ! %s\n", terminal.Line(n))
		}
	}
	return b.String()
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

// confirm shows the plan and asks.
func (in *Installer) confirm(ctx context.Context) error {
	if refusal := in.overwrites(); refusal != nil {
		if in.Yes || !in.Interactive { // --yes agrees to the plan, not to the loss of somebody's credentials
			return refusal
		}
		differences := strings.Join(in.plan.Secret.Differences, "; ")
		if err := in.agreed(ctx, fmt.Sprintf("Overwrite Secret %s/%s (%s)", in.plan.Secret.Namespace, in.plan.Secret.Name, differences)); err != nil {
			return err
		}
	}
	if in.Yes {
		if in.taker != nil && !in.Structured() {
			if err := in.printTakeover(in.ErrOut); err != nil { // what changes is shown, agreed to or not
				return err
			}
		}
		return in.consent(ctx)
	}
	if err := in.printText(in.ErrOut); err != nil {
		return err
	}
	if err := in.consent(ctx); err != nil || in.nothingToDo() {
		return err
	}
	return in.agreed(ctx, "Go on")
}

// nothingToDo reports whether the plan changes neither cluster nor CloudStack.
func (in *Installer) nothingToDo() bool {
	p := in.plan
	return p.Secret.Action == string(credentials.SecretKeep) && p.Chart.Action == diff.Keep && p.Takeover == nil && len(p.CloudStack.Steps) == 0 && in.caPEM == nil &&
		!slices.ContainsFunc(p.Objects, func(c diff.Change) bool { return c.Action != diff.Keep }) &&
		(in.SkipTaint || p.Nodes != nil && !slices.ContainsFunc(p.Nodes.Items, func(it taint.Item) bool { return it.State == taint.StateNeeds }))
}

// overwrites is the refusal to overwrite somebody's credentials unasked; nil where that is not planned, or agreed to.
func (in *Installer) overwrites() error {
	if in.plan.secret == nil || in.plan.secret.Action != credentials.SecretOverwrite || in.OverwriteSecret {
		return nil
	}
	return in.keepsSecret(strings.Join(in.plan.Secret.Differences, "; "))
}

// overwritesLater is overwrites before there are keys: those of a new user are not in the Secret that is there.
func (in *Installer) overwritesLater() error {
	if in.provision == nil || !in.provision.NewKeys() || !in.existing.Exists || in.OverwriteSecret {
		return nil
	}
	return in.keepsSecret("it would hold the new user's keys")
}

// keepsSecret is the refusal to overwrite somebody's credentials unasked.
func (in *Installer) keepsSecret(differences string) error {
	return report.Usage(fmt.Sprintf("Secret %s/%s exists and differs: %s", in.existing.Namespace, in.existing.Name, differences),
		"add --overwrite-secret, or leave out the credential flags to use the Secret as it is")
}
