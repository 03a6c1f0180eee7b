// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// readAdmission reads the release's admission policies by their labels: their names are the operator's to choose.
func (e *Env) readAdmission(ctx context.Context) (decide.AdmissionObjects, error) {
	api := e.Cluster.Kube.AdmissionregistrationV1()
	labels := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + e.Release}
	var out decide.AdmissionObjects
	var err error
	out.Policies, err = listAll(ctx, e, labels, api.ValidatingAdmissionPolicies().List, func(l *admissionv1.ValidatingAdmissionPolicyList) []admissionv1.ValidatingAdmissionPolicy {
		return l.Items
	})
	if err != nil {
		return decide.AdmissionObjects{}, err
	}
	// A binding may be somebody else's, so all are read.
	out.Bindings, err = listAll(ctx, e, metav1.ListOptions{}, api.ValidatingAdmissionPolicyBindings().List, func(l *admissionv1.ValidatingAdmissionPolicyBindingList) []admissionv1.ValidatingAdmissionPolicyBinding {
		return l.Items
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
	if words := decide.OwnWords(e.Release, e.Namespace, workloads); words != nil {
		id = cluster.IdentityOf(words)
	}
	if e.CloudConfig != nil {
		id.Config = e.CloudConfig.ClusterID
	}
	out, err := id.Resolve(ctx, e.Cluster.Kube)
	return out, e.Cluster.Explain(err)
}
