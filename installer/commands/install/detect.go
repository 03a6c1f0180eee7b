// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
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
func detect(ctx context.Context, e *engine.Env, c *Config) (*facts, error) {
	e.Progress.Step("Looking at the cluster")
	info, err := e.Cluster.Ping(ctx)
	if err != nil {
		return nil, err
	}
	kube, namespace := e.Cluster.Kube, e.Cluster.Namespace
	f := &facts{version: info.GitVersion, nodes: cluster.List(ctx, &err, kube.CoreV1().Nodes().List).Items}
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	distribution, _, err := e.Cluster.Distribution(ctx, f.nodes)
	if err != nil {
		return nil, err
	}
	history, err := e.History(ctx)
	if err != nil {
		return nil, err
	}
	if len(history) > 0 {
		f.release, f.kept = &history[0], helm.Values(history)
	}
	if f.secret, err = credentials.ReadSecret(ctx, kube, namespace); err == nil {
		f.controllers, err = family.Find(ctx, kube, e.Release, namespace)
	}
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	if distribution == cluster.CKS {
		// CKS has no place for arguments of kubelets: the nodes that it adds join without the taint.
		c.setDefault(f, "adoptNodes", true)
	}
	c.placePods(f)
	for _, p := range f.predecessors() {
		e.Progress.Info("found %s, another provider for CloudStack (%s, image %s)", &p, p.Family, p.Image)
	}
	parts := []string{"Kubernetes " + f.version, string(distribution), english.Plural(len(f.nodes), "node", "")}
	if distribution == cluster.Unknown { // which helps nobody
		parts = slices.Delete(parts, 1, 2)
	}
	e.Progress.Done("%s", strings.Join(parts, ", "))
	return f, nil
}

// placePods chooses where the Pods run, and how many, as far as the operator did not: on control plane nodes only, because the
// kubelet of a Pod's node may read the keys.
func (c *Config) placePods(f *facts) {
	n := 0
	for i := range f.nodes {
		if node.ControlPlane(&f.nodes[i]) {
			n++
		}
	}
	values := c.values(f)
	switch {
	case values["affinity"] != nil || values["controlPlaneOnly"] != nil || values["kind"] == "DaemonSet":
		f.placement = "as the chart's values say"
	case n == 0:
		f.placement = "on any node, whose kubelet may then read the keys: no node has the label of a control plane node"
		c.setDefault(f, "controlPlaneOnly", false)
	case n == 1:
		f.placement = "on the one control plane node"
		c.setDefault(f, "replicaCount", 1)
	default:
		f.placement = "on control plane nodes only"
	}
}

// predecessors are the other providers whose place the install takes. A controller that csccm does not know is left to the checks.
func (f *facts) predecessors() []family.Predecessor {
	return slices.DeleteFunc(slices.Clone(f.controllers.Predecessors), func(p family.Predecessor) bool { return p.Family == family.Other })
}

// replaces are the workloads whose place this install takes, which the checks before it then let pass.
func (f *facts) replaces() []check.Object {
	var out []check.Object
	for i := range f.controllers.Predecessors {
		if p := &f.controllers.Predecessors[i]; p.Replaceable() {
			out = append(out, check.Object{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name})
		}
	}
	return out
}
