// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/helm"
)

// Plan is what an install would do, complete enough to be shown and agreed to.
// It holds no secret.
type Plan struct {
	SchemaVersion int            `json:"schemaVersion"`
	Cluster       PlanCluster    `json:"cluster"`
	CloudStack    PlanCloudStack `json:"cloudStack"`
	Secret        PlanSecret     `json:"secret"`
	Chart         PlanChart      `json:"chart"`
	// Takeover is nil where no other provider is there. Its Services are compared once there are credentials.
	Takeover *takeover.Plan `json:"takeover,omitempty"`
	// Tenants is nil where the policy for tenants refuses no Service.
	Tenants *tenants.Plan `json:"tenants,omitempty"`
	// Nodes is nil as long as the controller's credentials do not exist.
	Nodes *taint.Plan `json:"nodes,omitempty"`
	// Objects is what the API server says would become of the chart's objects; nil when it was not asked.
	Objects []diff.Change `json:"objects,omitempty"`

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
	Done    []string `json:"done,omitempty"` // what this run has made already
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

// diffObjects has the API server judge every object of the plan by dry runs:
// what it refuses ends the install before the first write.
func (in *Installer) diffObjects(ctx context.Context) error {
	if in.Diff == nil {
		return nil
	}
	in.Progress.Step("Dry run on the API server")
	old := ""
	if in.facts.release != nil {
		old = in.facts.release.Manifest
	}
	changes, err := in.Diff(ctx, in.Cluster.Namespace, old, in.plan.manifest)
	if err == nil && in.plan.secret != nil {
		err = in.plan.secret.DryRun(ctx, in.Cluster.Kube)
	}
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.plan.Objects = changes
	if err := diff.Refused(changes); err != nil {
		return err
	}
	if in.plan.Chart.Action == diff.Keep && slices.ContainsFunc(changes, func(c diff.Change) bool { return c.Action == diff.Create }) {
		in.plan.Chart.Action = "upgrade" // somebody deleted an object of the release
	}
	in.Progress.Done("%s", diff.Summary(changes))
	return nil
}
