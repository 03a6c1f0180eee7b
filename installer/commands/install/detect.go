// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/node"
)

// facts is what detect found in the cluster.
type facts struct {
	version     string // of Kubernetes
	nodes       []corev1.Node
	release     *helm.Release  // nil = none
	kept        map[string]any // values that the release keeps
	secret      *credentials.Secret
	controllers *family.Controllers
	placement   string // where the Pods with the keys run
}

// detect reads what is there, and sets the chart values that follow from it. It changes nothing in the cluster.
func (r *run) detect(ctx context.Context) error {
	r.Progress.Step("Looking at the cluster")
	info, err := r.Cluster.Ping(ctx)
	if err != nil {
		return err
	}
	kube, namespace := r.Cluster.Kube, r.Cluster.Namespace
	r.version, r.nodes = info.GitVersion, cluster.List(ctx, &err, kube.CoreV1().Nodes().List).Items
	if err != nil {
		return r.Cluster.Explain(err)
	}
	distribution, _, err := r.Cluster.Distribution(ctx, r.nodes)
	if err != nil {
		return err
	}
	history, err := r.History(ctx)
	if err != nil {
		return err
	}
	if len(history) > 0 {
		r.release, r.kept = &history[0], helm.Values(history)
	}
	if r.secret, err = credentials.ReadSecret(ctx, kube, namespace); err == nil {
		r.controllers, err = family.Find(ctx, kube, r.Release, namespace)
	}
	if err != nil {
		return r.Cluster.Explain(err)
	}
	if distribution == cluster.CKS {
		// CKS has no place for arguments of kubelets: the nodes that it adds join without the taint.
		r.setDefault("adoptNodes", true)
	}
	r.placePods()
	for _, p := range r.predecessors() {
		r.Progress.Info("found %s, another provider for CloudStack (%s, image %s)", &p, p.Family, p.Image)
	}
	on := ""
	if distribution != cluster.Unknown {
		on = string(distribution) + ", "
	}
	r.Progress.Done("Kubernetes %s, %s%s", r.version, on, english.Plural(len(r.nodes), "node", ""))
	return nil
}

// placePods chooses where the Pods run, and how many, as far as the operator did not: on control plane nodes only, because the
// kubelet of a Pod's node may read the keys.
func (r *run) placePods() {
	n := 0
	for i := range r.nodes {
		if node.ControlPlane(&r.nodes[i]) {
			n++
		}
	}
	values := r.chartValues()
	switch {
	case values["affinity"] != nil || values["controlPlaneOnly"] != nil || values["kind"] == "DaemonSet":
		r.placement = "as the chart's values say"
	case n == 0:
		r.placement = "on any node, whose kubelet may then read the keys: no node has the label of a control plane node"
		r.setDefault("controlPlaneOnly", false)
	case n == 1:
		r.placement = "on the one control plane node"
		r.setDefault("replicaCount", 1)
	default:
		r.placement = "on control plane nodes only"
	}
}

// predecessors are the other providers whose place the install takes. A controller that csccm does not know is left to the checks.
func (f *facts) predecessors() []family.Predecessor {
	return slices.DeleteFunc(slices.Clone(f.controllers.Predecessors), func(p family.Predecessor) bool { return p.Family == family.Other })
}
