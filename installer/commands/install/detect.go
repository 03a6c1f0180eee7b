// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/journal"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/node"
)

// facts is what detect found.
type facts struct {
	version      string
	distribution string
	nodes        []corev1.Node
	release      *helm.Release  // nil = none
	values       map[string]any // that the release keeps
	controllers  *family.Controllers
	placement    string // where the Pods with the keys run
}

// detect reads what is there. It changes nothing.
func (in *Installer) detect(ctx context.Context) error {
	in.Progress.Step("Looking at the cluster")
	info, err := in.Cluster.Ping(ctx)
	if err != nil {
		return err
	}
	f := &facts{version: info.GitVersion}
	list, err := in.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return in.Cluster.Explain(err)
	}
	f.nodes = list.Items
	distribution, _, err := in.Cluster.Distribution(ctx, f.nodes)
	if err != nil {
		return err
	}
	f.distribution = string(distribution)
	history, err := in.History(ctx)
	if err != nil {
		return err
	}
	if len(history) > 0 {
		f.release, f.values = &history[0], helm.Values(history)
	}
	if in.existing, err = credentials.ReadSecret(ctx, in.Cluster.Kube, in.Cluster.Namespace); err != nil {
		return in.Cluster.Explain(err)
	}
	in.facts = f
	if _, given := in.effectiveValues()["adoptNodes"]; distribution == cluster.CKS && !given {
		// CKS has no place for arguments of kubelets: the nodes that it adds join without the taint.
		in.Values = helm.MergeValues(in.Values, map[string]any{"adoptNodes": true})
	}
	in.placePods()
	if err := in.findControllers(ctx); err != nil {
		return err
	}
	in.Progress.Done("%s", describeCluster(f.version, distribution, len(f.nodes)))
	if text := journal.Last(ctx, in.Cluster.Kube, in.Cluster.Namespace, Command).Describe(); text != "" {
		in.Progress.Info("%s", text)
	}
	return nil
}

// placePods chooses where the Pods run, and how many, as far as the operator did not: on control plane nodes only, because the
// kubelet of a Pod's node may read the keys.
func (in *Installer) placePods() {
	workers := slices.DeleteFunc(slices.Clone(in.facts.nodes), func(n corev1.Node) bool { return node.ControlPlane(&n) })
	values := in.effectiveValues()
	switch n := len(in.facts.nodes) - len(workers); {
	case values["affinity"] != nil || values["controlPlaneOnly"] != nil || values["kind"] == "DaemonSet":
		in.facts.placement = "as the chart's values say"
	case n == 0:
		in.Values = helm.MergeValues(in.Values, map[string]any{"controlPlaneOnly": false})
		in.facts.placement = "on any node, whose kubelet may then read the keys: no node has the label of a control plane node"
	case n == 1:
		in.facts.placement = "on the one control plane node"
		if values["replicaCount"] == nil {
			in.Values = helm.MergeValues(in.Values, map[string]any{"replicaCount": 1})
		}
	default:
		in.facts.placement = "on control plane nodes only"
	}
}

// describeCluster leaves out a distribution that is not recognised: that it is unknown helps nobody.
func describeCluster(version string, d cluster.Distribution, nodes int) string {
	parts := []string{"Kubernetes " + version, string(d), english.Plural(nodes, "node", "")}
	if d == cluster.Unknown {
		parts = slices.Delete(parts, 1, 2)
	}
	return strings.Join(parts, ", ")
}
