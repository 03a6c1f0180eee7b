// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/credentials"
	"github.com/csccm/csccm/installer/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/pkg/inventory"
)

// Plan is what an install would do, complete enough to be shown and agreed to.
// It holds no secret.
type Plan struct {
	SchemaVersion int            `json:"schemaVersion"`
	Cluster       PlanCluster    `json:"cluster"`
	CloudStack    PlanCloudStack `json:"cloudStack"`
	Secret        PlanSecret     `json:"secret"`
	Chart         PlanChart      `json:"chart"`
	// Nodes is nil as long as the controller's credentials do not exist.
	Nodes *taint.Plan `json:"nodes,omitempty"`

	secret   *credentials.SecretPlan
	manifest string
}

// PlanCluster names the cluster.
type PlanCluster struct {
	Context      string `json:"context"`
	Server       string `json:"server"`
	Version      string `json:"version"`
	Distribution string `json:"distribution"`
	Nodes        int    `json:"nodes"`
}

// PlanCloudStack is what happens in CloudStack.
type PlanCloudStack struct {
	APIURL  string   `json:"apiURL"`
	Account string   `json:"account,omitempty"`
	User    string   `json:"user,omitempty"`
	Project string   `json:"project,omitempty"`
	Zone    string   `json:"zone,omitempty"`
	Steps   []string `json:"steps"`
}

// PlanSecret is what happens to the Secret.
type PlanSecret struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Action      string   `json:"action"` // create, keep, overwrite
	Differences []string `json:"differences,omitempty"`
}

// PlanChart is what happens to the Helm release.
type PlanChart struct {
	Release    string         `json:"release"`
	Namespace  string         `json:"namespace"`
	Action     string         `json:"action"` // install, upgrade, keep
	Chart      string         `json:"chart"`
	Version    string         `json:"version"`
	AppVersion string         `json:"appVersion"`
	From       string         `json:"from,omitempty"` // chart version that is there
	Values     map[string]any `json:"values,omitempty"`
}

// makePlan decides what is to be done; it changes nothing.
func (in *Installer) makePlan(ctx context.Context) error {
	in.plan = &Plan{
		SchemaVersion: 1,
		Cluster: PlanCluster{
			Context: in.Cluster.Context, Server: in.Cluster.Server, Version: in.facts.version,
			Distribution: in.facts.distribution, Nodes: len(in.facts.nodes),
		},
		CloudStack: PlanCloudStack{APIURL: in.config.APIURL, Project: in.config.ProjectID, Zone: in.config.Zone, Steps: []string{}},
	}
	if in.provision != nil {
		in.plan.CloudStack.Account, in.plan.CloudStack.User = in.provision.Account, in.provision.User
		in.plan.CloudStack.Steps = append(in.plan.CloudStack.Steps, in.provision.Steps...)
	}
	in.plan.Secret = PlanSecret{Namespace: in.existing.Namespace, Name: in.existing.Name, Action: in.expectedSecretAction()}
	return in.planChart(ctx)
}

// expectedSecretAction is what will probably happen to the Secret, before the
// keys are known.
func (in *Installer) expectedSecretAction() string {
	switch {
	case !in.existing.Exists:
		return string(credentials.SecretCreate)
	case in.Options.Credentials.Source == SourceSecret:
		return string(credentials.SecretKeep)
	case in.existing.Problem != nil:
		return string(credentials.SecretOverwrite)
	}
	return "keep, or overwrite where it differs"
}

func (in *Installer) planChart(ctx context.Context) error {
	values := in.Options.Values
	if in.caPEM != nil {
		values = helm.MergeValues(map[string]any{"caBundle": map[string]any{"configMapName": credentials.CAConfigMap}}, values)
		in.Options.Values = values
	}
	chart := in.Options.Chart
	p := PlanChart{
		Release: in.Options.Release, Namespace: in.Cluster.Namespace, Action: "install",
		Chart: chart.Source, Version: chart.Version(), AppVersion: chart.AppVersion(), Values: values,
	}
	release := in.facts.release
	if release != nil && release.Deployed() {
		values = helm.MergeValues(release.Values, values) // as Apply does
	}
	manifest, err := in.Helm.Template(ctx, helm.ApplyRequest{Name: in.Options.Release, Chart: chart, Values: values, KubeVersion: in.facts.version})
	if err != nil {
		return err
	}
	in.plan.manifest = manifest
	if release != nil {
		p.From = release.ChartVersion
		p.Action = "upgrade"
		same := release.Deployed() && release.ChartVersion == p.Version && release.AppVersion == p.AppVersion &&
			reflect.DeepEqual(normal(release.Values), normal(values)) &&
			strings.HasPrefix(manifest, strings.TrimSpace(release.Manifest))
		if same {
			p.Action = "keep"
		}
	}
	in.plan.Chart = p
	return nil
}

// normal makes values comparable: numbers of --set and of a stored release have
// different Go types.
func normal(values map[string]any) any {
	b, err := json.Marshal(values)
	if err != nil {
		return values
	}
	var out map[string]any
	if json.Unmarshal(b, &out) != nil || len(out) == 0 {
		return map[string]any{}
	}
	return out
}

// preflight runs the checks that make sense before an install; a failed one
// ends it.
func (in *Installer) preflight(ctx context.Context) error {
	in.Progress.Step("Checks before the install")
	env := &check.Env{
		Cluster: in.Cluster, CloudConfig: in.config, Namespace: in.Cluster.Namespace, Release: in.Options.Release,
		RequiredCommands: in.Required, OptionalCommands: in.Optional, Manifest: in.plan.manifest, Clock: in.Clock,
	}
	if in.cloud != nil {
		env.CloudStack = in.cloud
	} else {
		env.CloudConfig = nil
		env.NoCloudStack = "the controller's user is not made yet"
	}
	return in.runChecks(ctx, env, check.PhasePreflight)
}

// ChecksError is a check that does not pass.
type ChecksError struct {
	Failed []check.Result
	Phase  check.Phase
}

func (e *ChecksError) Error() string {
	codes := make([]string, len(e.Failed))
	for i := range e.Failed {
		codes[i] = e.Failed[i].Code
	}
	if e.Phase == check.PhasePreflight {
		return fmt.Sprintf("nothing was installed: %s failed: %s", strings.Join(codes, ", "), e.Failed[0].Message)
	}
	return fmt.Sprintf("installed, but %s failed: %s", strings.Join(codes, ", "), e.Failed[0].Message)
}

// Remedy is that of the first failed check.
func (e *ChecksError) Remedy() string {
	r := e.Failed[0].Remedy
	if e.Phase == check.PhasePreflight {
		r += fmt.Sprintf(" (or pass over it with --skip-check %s)", e.Failed[0].Code)
	}
	return strings.TrimSpace(r)
}

// ExitCode is that of a failed check.
func (e *ChecksError) ExitCode() int { return report.ExitCheckFailed }

func (in *Installer) runChecks(ctx context.Context, env *check.Env, phase check.Phase) error {
	result := in.Checks(ctx, env, check.Selection{Phase: phase, Skip: in.Options.SkipChecks}, nil)
	if ctx.Err() != nil {
		in.Progress.Fail("")
		return context.Cause(ctx)
	}
	var failed []check.Result
	for i := range result.Checks {
		c := &result.Checks[i]
		switch c.Outcome {
		case check.Failed:
			failed = append(failed, *c)
			in.Progress.Warn("%s %s: %s", c.Code, c.Title, c.Message)
			in.sayObjects(c)
		case check.Warning:
			if in.warned[c.Code+c.Message] {
				continue // said before the install already
			}
			in.warned[c.Code+c.Message] = true
			in.Progress.Warn("%s %s: %s", c.Code, c.Title, c.Message)
			in.sayObjects(c)
		case check.OK, check.Skipped, check.Unknown:
		}
	}
	s := result.Summary
	text := fmt.Sprintf("%d ok, %s, %d failed", s.OK, count(s.Warning, "warning"), s.Failed)
	if len(failed) > 0 {
		in.Progress.Fail("%s", text)
		return &ChecksError{Failed: failed, Phase: phase}
	}
	in.Progress.Done("%s", text)
	return nil
}

func (in *Installer) sayObjects(c *check.Result) {
	for i, o := range c.Objects {
		if i == 5 {
			in.Progress.Info("... and %d more", len(c.Objects)-i)
			return
		}
		in.Progress.Info("%s %s", o.String(), o.Message)
	}
}

// planNodes says which existing nodes are to be initialised, and the Secret's
// exact fate, now that the credentials are known.
func (in *Installer) planNodes(ctx context.Context) error {
	secret := credentials.KeepSecret(in.existing)
	var err error
	if in.Options.Credentials.Source != SourceSecret || in.changesSecret() {
		if secret, err = credentials.PlanSecret(in.existing, in.config); err != nil {
			return err
		}
	}
	in.plan.secret = secret
	in.plan.Secret.Action, in.plan.Secret.Differences = string(secret.Action), secret.Differences
	in.plan.CloudStack.Project = in.config.ProjectID
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	in.plan.Nodes = plan
	if len(plan.Problems) > 0 && !in.Options.SkipTaint {
		for _, p := range plan.Problems {
			in.Progress.Warn("%s", p.Text)
			in.Progress.Info("fix: %s", p.Remedy)
		}
		return &taint.BlockedError{Problems: plan.Problems}
	}
	return nil
}

// changesSecret tells whether flags change the configuration of the Secret.
func (in *Installer) changesSecret() bool {
	local := *in.config
	local.CAFile = in.existing.Config.CAFile
	return len(credentials.Differences(in.existing.Config, &local)) > 0
}

// taintPlan reads nodes and VMs as they are now.
func (in *Installer) taintPlan(ctx context.Context) (*taint.Plan, error) {
	list, err := in.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, in.Cluster.Explain(err)
	}
	in.facts.nodes = list.Items
	inv := inventory.New(in.cloud, inventory.Options{ProjectID: in.config.ProjectID, Zone: in.config.Zone, Clock: in.Clock})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	return taint.NewPlan(taint.Facts{Nodes: list.Items, VMs: vms, Region: in.config.Region}), nil
}

// confirm shows the plan and asks.
func (in *Installer) confirm(ctx context.Context) error {
	if in.plan.secret.Action == credentials.SecretOverwrite && !in.Options.OverwriteSecret {
		name := in.plan.Secret.Namespace + "/" + in.plan.Secret.Name
		question := fmt.Sprintf("Overwrite Secret %s (%s)", name, strings.Join(in.plan.Secret.Differences, "; "))
		refusal := &usageError{
			fmt.Sprintf("Secret %s exists and differs: %s", name, strings.Join(in.plan.Secret.Differences, "; ")),
			"add --overwrite-secret, or leave out the credential flags to use the Secret as it is",
		}
		if in.Options.Yes {
			return refusal // --yes agrees to the plan, not to the loss of somebody's credentials
		}
		if err := in.agreed(ctx, question); err != nil {
			var missing interface{ ExitCode() int }
			if errors.As(err, &missing) && missing.ExitCode() == report.ExitUsage {
				return refusal
			}
			return err
		}
	}
	if in.Options.Yes {
		return nil
	}
	if err := in.printText(in.ErrOut); err != nil {
		return err
	}
	return in.agreed(ctx, "Go on")
}

func (in *Installer) printPlan() error {
	if in.Options.JSON {
		e := json.NewEncoder(in.Out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(in.plan)
	}
	return in.printText(in.Out)
}

func (in *Installer) printText(w io.Writer) error {
	p := in.plan
	var b strings.Builder
	fmt.Fprintf(&b, "Plan for %s (%s), Kubernetes %s, %s:\n", p.Cluster.Context, p.Cluster.Server, p.Cluster.Version, count(p.Cluster.Nodes, "node"))
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
	switch {
	case in.Options.SkipTaint:
		fmt.Fprintf(&b, "  Nodes       left as they are (--skip-taint)\n")
	case p.Nodes == nil:
		fmt.Fprintf(&b, "  Nodes       planned once the credentials are there\n")
	default:
		b.WriteString(describeNodes(p.Nodes))
	}
	_, err := io.WriteString(w, b.String())
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
