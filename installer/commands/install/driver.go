// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/storage"
)

// CSIOptions are about the CSI driver, with WithCSI.
type CSIOptions struct {
	// Load reads the chart. It is called when the cluster has no driver of somebody else.
	Load   func(ctx context.Context) (*helm.Chart, error)
	Digest string // of the content that the chart must have
	Values map[string]any
	Flags  []string // as typed, for the flag line
}

// PlanDriver is what happens to the CSI driver's Helm release. Action is leave where the cluster has a driver that is not
// of this release.
type PlanDriver struct {
	PlanChart
	Digest string `json:"digest,omitempty"` // of the chart's content
	Owner  string `json:"owner,omitempty"`  // of the driver that is left as it is

	chart         *helm.Chart
	given         map[string]any // of Values
	was, manifest string
	workloads     []rollout.Target
}

// driverLeave is the action for a driver of somebody else.
const driverLeave = "leave"

// installs reports whether the driver is of the release that csccm keeps.
func (p *PlanDriver) installs() bool { return p != nil && p.Action != driverLeave }

// driverOf returns who installed a driver.
func driverOf(d *storagev1.CSIDriver) string {
	if name := d.Annotations["meta.helm.sh/release-name"]; name != "" {
		return "Helm release " + d.Annotations["meta.helm.sh/release-namespace"] + "/" + name
	}
	return "no Helm release"
}

// planDriver decides what is to be done about the CSI driver; it changes nothing.
func (in *Installer) planDriver(ctx context.Context) error {
	if !slices.Contains(in.With, WithCSI) {
		return nil
	}
	p := &PlanDriver{PlanChart: PlanChart{Release: storage.Release, Namespace: in.Cluster.Namespace, Action: "install"}}
	in.plan.Driver = p
	there, err := in.Cluster.Kube.StorageV1().CSIDrivers().Get(ctx, storage.DriverName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return in.Cluster.Explain(err)
	default:
		if owner := driverOf(there); owner != "Helm release "+p.Namespace+"/"+p.Release {
			p.Action, p.Owner = driverLeave, owner
			in.Progress.Info("the CSI driver is left as it is: CSIDriver %s belongs to %s", storage.DriverName, owner)
			return nil
		}
	}
	if p.chart, p.Digest, err = in.driverChart(ctx); err != nil {
		return err
	}
	p.Chart, p.Version, p.AppVersion = p.chart.Source, p.chart.Version(), p.chart.AppVersion()
	p.given = in.CSI.Values
	if p.Values, err = in.driverValues(); err != nil {
		return err
	}
	release, err := in.Helm.Get(ctx, p.Release)
	if err != nil && !errors.Is(err, helm.ErrReleaseNotFound) {
		return in.Cluster.Explain(err)
	}
	values := p.Values
	if release != nil && release.Deployed() {
		values = helm.MergeValues(release.Values, values) // as Apply does
	}
	p.manifest, err = in.Helm.Template(ctx, helm.ApplyRequest{Name: p.Release, Chart: p.chart, Values: values, KubeVersion: in.facts.version})
	if err != nil {
		return err
	}
	if release != nil {
		p.From, p.was, p.Action = release.ChartVersion, release.Manifest, "upgrade"
		if release.UpToDate(p.chart, values, p.manifest) {
			p.Action = diff.Keep
		}
	}
	return p.findWorkloads()
}

// driverChart loads the chart and compares its content with what it must be.
func (in *Installer) driverChart(ctx context.Context) (*helm.Chart, string, error) {
	in.Progress.Step("The chart of the CSI driver")
	chart, err := in.CSI.Load(ctx)
	if err != nil {
		return nil, "", err
	}
	digest, err := chart.Digest()
	if err != nil {
		return nil, "", err
	}
	if digest != in.CSI.Digest {
		return nil, "", &report.Error{
			What: fmt.Sprintf("nothing was changed: chart %s has not the content that is expected: its digest is %s, expected is %s", chart.Source, digest, in.CSI.Digest),
			Fix: fmt.Sprintf("give chart %s %s as its maintainers publish it; another version, once you have examined it, with --csi-chart and --csi-chart-digest %s",
				storage.Pinned.Name, storage.Pinned.Version, digest),
			Code: report.ExitCheckFailed,
		}
	}
	in.Progress.Done("%s %s, %s", chart.Name(), chart.Version(), digest)
	return chart, digest, nil
}

// driverValues are the values of the driver's chart: those that it needs here, under those that were given.
func (in *Installer) driverValues() (map[string]any, error) {
	s := storage.Setting{Secret: credentials.SecretName, CAKey: credentials.CAKey}
	if bundle, _ := in.effectiveValues()["caBundle"].(map[string]any); bundle != nil {
		s.CAConfigMap, _ = bundle["configMapName"].(string)
	}
	for i := range in.facts.nodes {
		if _, labelled := in.facts.nodes[i].Labels[storage.ControlLabel]; labelled {
			s.ControlNode = true
		}
	}
	if node, _ := in.CSI.Values["node"].(map[string]any); node["kubeletPath"] == nil {
		var err error
		if s.KubeletDir, err = kubeletDir(in.facts.kubelets, cluster.Distribution(in.facts.distribution)); err != nil {
			return nil, err
		}
	}
	return helm.MergeValues(storage.Values(s), in.CSI.Values), nil
}

// kubeletDir returns the folder of the kubelets, in which the driver registers; "" where nothing says that it is another
// than usual. The driver's DaemonSet has one for all nodes.
func kubeletDir(kubelets []kubelet.NodeVerdict, d cluster.Distribution) (string, error) {
	dirs := map[string]string{} // a node by folder
	for i := range kubelets {
		if dir := kubelets[i].RootDir; dir != "" {
			dirs[dir] = cmp.Or(dirs[dir], kubelets[i].Node)
		}
	}
	switch {
	case len(dirs) > 1:
		var texts []string
		for dir, node := range dirs {
			texts = append(texts, fmt.Sprintf("%s on node %s", dir, node))
		}
		slices.Sort(texts)
		return "", &report.Error{
			What: "nothing was changed: kubelets have different folders (" + strings.Join(texts, ", ") + "), and the CSI driver has one for all nodes",
			Fix:  "name the folder with --csi-set node.kubeletPath=FOLDER, and the nodes that have it with --csi-set node.nodeSelector.LABEL=VALUE", Code: report.ExitCheckFailed,
		}
	case len(dirs) == 0 && d == cluster.K0s:
		return "/var/lib/k0s/kubelet", nil
	}
	for dir := range dirs {
		return dir, nil
	}
	return "", nil
}

// findWorkloads finds what has to become ready.
func (p *PlanDriver) findWorkloads() error {
	objects, err := diff.Parse(p.manifest)
	if err != nil {
		return fmt.Errorf("chart %s: %w", p.Chart, err)
	}
	for i := range objects {
		if o := &objects[i]; o.GetKind() == "Deployment" || o.GetKind() == "DaemonSet" {
			p.workloads = append(p.workloads, rollout.Target{Kind: o.GetKind(), Namespace: cmp.Or(o.GetNamespace(), p.Namespace), Name: o.GetName()})
		}
	}
	return nil
}

// text is the plan for a person; "" without a driver.
func (p *PlanDriver) text() string {
	var b strings.Builder
	switch {
	case p == nil:
	case !p.installs():
		fmt.Fprintf(&b, "  CSI driver  left as it is: CSIDriver %s belongs to %s\n", storage.DriverName, p.Owner)
	default:
		from := ""
		if p.From != "" && p.Action == "upgrade" {
			from = " from " + p.From
		}
		fmt.Fprintf(&b, "  CSI driver  %s release %s/%s%s: chart %s %s, driver %s\n", p.Action, p.Namespace, p.Release, from, p.Chart, p.Version, p.AppVersion)
		for _, line := range flatten("", p.given) { // those that csccm sets itself are in the JSON form
			fmt.Fprintf(&b, "              %s\n", line)
		}
	}
	return b.String()
}

// manifests is what the install is about to apply.
func (p *Plan) manifests() string {
	if p.Driver.installs() {
		return p.manifest + "\n---\n" + p.Driver.manifest
	}
	return p.manifest
}

// applyDriver installs or upgrades the driver's release. It does not wait: see awaitDriver.
func (in *Installer) applyDriver(ctx context.Context) error {
	p := in.plan.Driver
	if !p.installs() {
		return nil
	}
	in.Progress.Step("Helm release %s/%s of the CSI driver", p.Namespace, p.Release)
	if p.Action == diff.Keep {
		in.Progress.Done("chart %s is what is wanted", p.Version)
		return nil
	}
	release, err := in.Helm.Apply(ctx, helm.ApplyRequest{Name: p.Release, Chart: p.chart, Values: p.Values, Description: "csccm install"})
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.note("release %s, revision %d, chart %s", p.Release, release.Revision, release.ChartVersion)
	in.Progress.Done("revision %d, chart %s", release.Revision, release.ChartVersion)
	return nil
}

const (
	// registerTimeout covers the time from a ready Pod to its entry in the CSINode, which the kubelet makes.
	registerTimeout = time.Minute

	driverCheck = "STOR-001"
)

// awaitDriver waits until the driver's Pods are ready and the kubelets have registered it.
func (in *Installer) awaitDriver(ctx context.Context) error {
	if !in.plan.Driver.installs() {
		return nil
	}
	for i := range in.plan.Driver.workloads {
		w := in.Waiter()
		w.Of = &in.plan.Driver.workloads[i]
		if err := w.Wait(ctx); err != nil {
			return err
		}
	}
	return in.awaitCheck(ctx, driverCheck, "the kubelets to register the CSI driver", registerTimeout)
}

// ResultDriver is the CSI driver after the install.
type ResultDriver struct {
	Release      string `json:"release"`
	Action       string `json:"action"` // what was done, as in the plan
	ChartVersion string `json:"chartVersion,omitempty"`
	AppVersion   string `json:"appVersion,omitempty"`
	// Classes is how many StorageClasses are of the driver.
	Classes int `json:"classes"`
}

func (in *Installer) driverResult(ctx context.Context) (*ResultDriver, error) {
	p := in.plan.Driver
	if p == nil {
		return nil, nil //nolint:nilnil // no driver is asked for
	}
	r := &ResultDriver{Release: p.Release, Action: p.Action, ChartVersion: p.Version, AppVersion: p.AppVersion}
	list, err := in.Cluster.Kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, in.Cluster.Explain(err)
	}
	for i := range list.Items {
		if list.Items[i].Provisioner == storage.DriverName {
			r.Classes++
		}
	}
	return r, nil
}

// text is the result for a person; "" without a driver.
func (r *ResultDriver) text(namespace string) string {
	if r == nil || r.Action == driverLeave {
		return ""
	}
	text := fmt.Sprintf("The CSI driver %s runs in namespace %s.\n", r.AppVersion, namespace)
	if r.Classes == 0 {
		text += fmt.Sprintf("No StorageClass is of it yet: make one with provisioner %s and parameter\n  %s.\n", storage.DriverName, storage.DiskOfferingKey)
	}
	return text
}
