// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine"
)

// Decide is PlanOf a rendered chart with the Services of the cluster. It warns of what is refused. addresses returns what
// CloudStack says; nil where CloudStack is not asked.
func Decide(ctx context.Context, e *engine.Env, manifest string, addresses func([]corev1.Service) (map[string]Address, error)) (*Plan, error) {
	words := WordsOfManifest(manifest)
	if words == nil {
		return nil, nil //nolint:nilnil // a chart whose controller has no policy
	}
	services, err := e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	view := View{Services: services.Items}
	if addresses != nil {
		if view.Addresses, err = addresses(services.Items); err != nil {
			return nil, err
		}
	}
	p, err := PlanOf(ctx, e.Cluster.Kube, words, view)
	if err == nil && p != nil {
		for _, line := range p.Lines() {
			e.Progress.Warn("%s", line)
		}
	}
	return p, e.Cluster.Explain(err)
}
