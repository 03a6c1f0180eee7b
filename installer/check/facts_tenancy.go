// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// readAdmission reads the release's admission policies by their labels: their names are the operator's to choose.
func (e *Env) readAdmission(ctx context.Context) (admission, error) {
	api := e.Cluster.Kube.AdmissionregistrationV1()
	labels := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + e.Release}
	var out admission
	var err error
	out.policies, err = all(ctx, labels, func(ctx context.Context, o metav1.ListOptions) ([]admissionv1.ValidatingAdmissionPolicy, string, error) {
		l, err := api.ValidatingAdmissionPolicies().List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		return l.Items, l.Continue, nil
	})
	if err != nil {
		return admission{}, err
	}
	// A binding may be somebody else's, so all are read.
	out.bindings, err = all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]admissionv1.ValidatingAdmissionPolicyBinding, string, error) {
		l, err := api.ValidatingAdmissionPolicyBindings().List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		return l.Items, l.Continue, nil
	})
	return out, err
}

// readLabels reads the labels of all namespaces, by name.
func (e *Env) readLabels(ctx context.Context) (map[string]map[string]string, error) {
	labels, err := cluster.NamespaceLabels(ctx, e.Cluster.Kube)
	return labels, e.Cluster.Explain(err)
}

// readClusterID reads by what name the controller knows the cluster in CloudStack's tags.
func (e *Env) readClusterID(ctx context.Context) (string, error) {
	workloads, err := e.facts.workloads.get(ctx)
	if err != nil {
		return "", err
	}
	id := cluster.Identity{}
	if words := ownWords(e.Release, e.Namespace, workloads); words != nil {
		id = cluster.IdentityOf(words)
	}
	if e.CloudConfig != nil {
		id.Config = e.CloudConfig.ClusterID
	}
	out, err := id.Resolve(ctx, e.Cluster.Kube)
	return out, e.Cluster.Explain(err)
}
