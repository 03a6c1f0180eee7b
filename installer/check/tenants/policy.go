// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Decide returns which Services of the cluster the policy of a rendered chart refuses, and warns of each. CloudStack is not asked
// about addresses: check TEN-002 is. The labels of namespaces are read if the policy needs them.
func Decide(ctx context.Context, e *engine.Env, manifest string) ([]Refusal, error) {
	p, set, err := PolicyOf(family.ArgumentsOfChart(manifest))
	if err != nil {
		return nil, report.Usage(err.Error(), "correct the chart value tenancy")
	}
	if !set {
		return nil, nil // a chart whose controller has no policy
	}
	services := cluster.List(ctx, &err, e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	view := View{Services: services}
	if err == nil && p.NeedsLabels() {
		view.Labels, err = cluster.NamespaceLabels(ctx, e.Cluster.Kube)
	}
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	refused := Refusals(p, view)
	for i := range refused {
		e.Progress.Warn("%s", &refused[i])
	}
	return refused, nil
}

// PolicyOf returns the policy of a controller that is started with these words. set is false where they have no
// --tenancy: then a controller that knows the flag works with the default policy, and an older one with none.
func PolicyOf(words []string) (p tenancy.Policy, set bool, err error) {
	text, set := cluster.Argument(words, "tenancy")
	if strings.TrimSpace(text) == "" {
		return tenancy.Default(), set, nil
	}
	p, err = tenancy.Parse([]byte(text))
	return p, set, err
}

// Words returns the commands and arguments of a Pod's containers.
func Words(pod *corev1.PodSpec) []string {
	var out []string
	for i := range pod.Containers {
		out = slices.Concat(out, cluster.Arguments(&pod.Containers[i]))
	}
	return out
}
