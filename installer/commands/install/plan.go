// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/cloudstack"
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
	// Takeover is nil where no other provider is there. Its Services are compared once there are credentials.
	Takeover *takeover.Plan `json:"takeover,omitempty"`
	// Tenants is what the policy for tenants refuses.
	Tenants []tenants.Refusal `json:"tenants,omitempty"`
	// Nodes is nil as long as the controller's credentials do not exist.
	Nodes *taint.Plan `json:"nodes,omitempty"`
	// Objects is what the API server says would become of the chart's objects; nil when it was not asked.
	Objects []diff.Change `json:"objects,omitempty"`

	secret   *credentials.SecretPlan
	manifest string
	values   map[string]any // of the release, with those that it keeps
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
	Action     string         `json:"action"` // install, upgrade, keep, restore
	Chart      string         `json:"chart"`
	Version    string         `json:"version"`
	AppVersion string         `json:"appVersion"`
	From       string         `json:"from,omitempty"` // chart version that is there
	Values     map[string]any `json:"values,omitempty"`
	Placement  string         `json:"placement"` // where the Pods with the keys run
}

// actionRestore is the action for a release that is what is wanted, and whose objects somebody has changed or deleted.
const actionRestore = "restore"

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
	case in.Credentials.Source == SourceSecret:
		return string(credentials.SecretKeep)
	case in.existing.Problem != nil:
		return string(credentials.SecretOverwrite)
	}
	return "keep, or overwrite where it differs"
}

func (in *Installer) planChart(ctx context.Context) error {
	values := in.Values
	if in.caPEM != nil {
		values = helm.MergeValues(map[string]any{"caBundle": map[string]any{"configMapName": credentials.CAConfigMap}}, values)
		in.Values = values
	}
	chart := in.Chart
	p := PlanChart{
		Release: in.Release, Namespace: in.Cluster.Namespace, Action: "install",
		Chart: chart.Source, Version: chart.Version(), AppVersion: chart.AppVersion(), Values: values, Placement: in.facts.placement,
	}
	release := in.facts.release
	values = helm.MergeValues(in.facts.values, values)
	in.plan.values = values
	manifest, err := in.Render(ctx, helm.ApplyRequest{Name: in.Release, Chart: chart, Values: values, KubeVersion: in.facts.version})
	if err != nil {
		return err
	}
	in.plan.manifest = manifest
	if release != nil {
		p.From = release.ChartVersion
		p.Action = "upgrade"
		if release.UpToDate(chart, values, manifest) {
			p.Action = "keep"
		}
	}
	in.plan.Chart = p
	return nil
}

// diffObjects has the API server judge every object of the plan by dry runs:
// what it refuses ends the install before the first write.
func (in *Installer) diffObjects(ctx context.Context) error {
	if in.Diff == nil {
		return nil
	}
	old := ""
	if in.facts.release != nil {
		old = in.facts.release.Manifest
	}
	if in.plan.secret != nil {
		if err := in.plan.secret.DryRun(ctx, in.Cluster.Kube); err != nil {
			return in.Cluster.Explain(err)
		}
	}
	var err error
	if in.plan.Chart.Action != diff.Keep {
		in.plan.Objects, err = in.Changes(ctx, old, in.plan.manifest)
		return err
	}
	if in.plan.Objects, err = in.Drift(ctx, old); err == nil && diff.Different(in.plan.Objects) {
		in.plan.Chart.Action = actionRestore
	}
	return err
}

// planNodes says which existing nodes are to be initialised, and the Secret's
// exact fate, now that the credentials are known.
func (in *Installer) planNodes(ctx context.Context) error {
	secret := credentials.KeepSecret()
	var err error
	if in.Credentials.Source != SourceSecret || in.changesSecret() {
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
	if len(plan.Problems) > 0 && !in.SkipTaint {
		for _, p := range plan.Problems {
			in.Progress.Warn("%s", p.Text)
			in.Progress.Info("fix: %s", p.Remedy)
		}
		return plan.Blocked()
	}
	return nil
}

// changesSecret reports whether flags change the configuration of the Secret.
func (in *Installer) changesSecret() bool {
	local := *in.config
	local.CAFile = in.existing.Config.CAFile
	return len(in.existing.Config.Differences(&local)) > 0
}

// taintPlan reads nodes and VMs as they are now.
func (in *Installer) taintPlan(ctx context.Context) (*taint.Plan, error) {
	list, err := in.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, in.Cluster.Explain(err)
	}
	in.facts.nodes = list.Items
	inv := inventory.New(in.cloud, inventory.Options{ProjectID: in.config.ProjectID, Zone: in.config.Zone, NodeVMs: in.config.NodeVMs, Clock: in.Clock})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	form, err := in.labelForm()
	if err != nil {
		return nil, err
	}
	return taint.NewPlan(taint.Facts{Nodes: list.Items, VMs: vms, Region: in.config.Region, LabelForm: form}), nil
}

// planTenants names the Services that the chart's policy for tenants refuses.
func (in *Installer) planTenants(ctx context.Context) (err error) {
	var addresses func([]corev1.Service) (map[string]tenants.Address, error)
	if in.cloud != nil { // without keys CloudStack's addresses are not known
		addresses = func(services []corev1.Service) (map[string]tenants.Address, error) {
			return in.tenantsAddresses(ctx, services)
		}
	}
	in.plan.Tenants, err = tenants.Decide(ctx, in.Env, in.plan.manifest, addresses)
	return err
}

func (in *Installer) tenantsAddresses(ctx context.Context, services []corev1.Service) (map[string]tenants.Address, error) {
	ids, err := cluster.Identity{Config: in.config.ClusterID, Former: in.config.FormerClusterIDs}.Resolve(ctx, in.Cluster.Kube)
	if err != nil {
		return nil, in.Cluster.Explain(err)
	}
	addresses, err := in.cloud.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: in.config.ProjectID})
	if err != nil {
		return nil, fmt.Errorf("list public addresses: %w", err)
	}
	rules, err := in.cloud.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: in.config.ProjectID})
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules: %w", err)
	}
	return tenants.Addresses(addresses, rules, services, ids), nil
}
