// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Decide is PlanOf a rendered chart with the Services of the cluster. It warns of what is refused. CloudStack is not asked about
// addresses: check TEN-002 is.
func Decide(ctx context.Context, e *engine.Env, manifest string) ([]Refusal, error) {
	words := family.ArgumentsOfChart(manifest)
	if _, set := family.Argument(words, "tenancy"); !set {
		return nil, nil // a chart whose controller has no policy
	}
	services, err := e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	refused, err := PlanOf(ctx, e.Cluster.Kube, words, View{Services: services.Items})
	for i := range refused {
		e.Progress.Warn("%s", &refused[i])
	}
	return refused, e.Cluster.Explain(err)
}

// PlanOf returns what the policy in the words that a controller is started with refuses. It reads the labels of namespaces if
// the policy needs them.
func PlanOf(ctx context.Context, kube kubernetes.Interface, words []string, v View) ([]Refusal, error) {
	p, set, err := PolicyOf(words)
	switch {
	case err != nil:
		return nil, report.Usage(err.Error(), "correct the chart value tenancy")
	case !set:
		return nil, nil // a controller without a policy
	case p.NeedsLabels():
		if v.Labels, err = cluster.NamespaceLabels(ctx, kube); err != nil {
			return nil, err
		}
	}
	return Refusals(p, v), nil
}

// PolicyOf returns the policy of a controller that is started with these words. set is false where they have no
// --tenancy: then a controller that knows the flag works with the default policy, and an older one with none.
func PolicyOf(words []string) (p tenancy.Policy, set bool, err error) {
	text, set := family.Argument(words, "tenancy")
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
		out = slices.Concat(out, family.Arguments(&pod.Containers[i]))
	}
	return out
}
