// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"cmp"
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/must"
)

// Predecessor is a controller with the names of Apache's manifest, which CloudStack Kubernetes Service applies: the
// same Deployment, ServiceAccount, roles and lease. Its program is csccm's own controller; RulesOfOld changes the
// names of its rules to those of older providers.
type Predecessor struct {
	Image string
	// Provider is its --cloud-provider; empty means Apache's.
	Provider string
	// Secret is the name of the Secret that has the cloud-config in the key cloud-config.
	Secret string
	// HostNetwork is as in the new controller. Port is the secure port. It must differ from the new controller's if
	// both run on one node.
	HostNetwork bool
	Port        string
	// Flags are additional arguments; they override those above.
	Flags []string
	// DaemonOn makes it a DaemonSet on this node instead of a Deployment.
	DaemonOn string
}

// PredecessorName is the name of its Deployment, ServiceAccount and lease.
const PredecessorName = "cloud-controller-manager"

const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Create creates the objects of the predecessor.
func (p Predecessor) Create(ctx context.Context, client kubernetes.Interface) (err error) {
	defer must.Return(&err)
	meta := metav1.ObjectMeta{Name: PredecessorName, Namespace: metav1.NamespaceSystem}
	all := []string{"*"}
	must.Get(client.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{}))
	role := metav1.ObjectMeta{Name: "system:" + PredecessorName}
	must.Get(client.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: role, Rules: []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}},
		metav1.CreateOptions{}))
	must.Get(client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: role, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: PredecessorName}},
	}, metav1.CreateOptions{}))

	labels, replicas := map[string]string{"k8s-app": PredecessorName}, int32(1)
	selector, template := &metav1.LabelSelector{MatchLabels: labels}, p.template(labels)
	if p.DaemonOn != "" {
		template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.DaemonOn}
		_, err = client.AppsV1().DaemonSets(meta.Namespace).Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
		}, metav1.CreateOptions{})
		return err
	}

	_, err = client.AppsV1().Deployments(meta.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	return err
}

func (p Predecessor) template(labels map[string]string) corev1.PodTemplateSpec {
	dns := corev1.DNSClusterFirst
	if p.HostNetwork {
		dns = corev1.DNSDefault
	}

	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		ServiceAccountName: PredecessorName,
		HostNetwork:        p.HostNetwork,
		DNSPolicy:          dns,
		Tolerations: []corev1.Toleration{
			{Key: uninitialized, Operator: corev1.TolerationOpExists},
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists},
		},
		Containers: []corev1.Container{{
			Name:    PredecessorName,
			Image:   p.Image,
			Command: []string{"/cloudstack-ccm"},
			Args: append([]string{
				"--leader-elect=true", "--cloud-provider=" + cmp.Or(p.Provider, "external-cloudstack"),
				"--cloud-config=/config/cloud-config",
				"--bind-address=$(POD_IP)", "--secure-port=" + p.Port, "--webhook-secure-port=0",
				"--instance-type-format=upstream",
			}, p.Flags...),
			Env: []corev1.EnvVar{
				{
					Name:      "POD_IP",
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
				},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config", ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{
			{
				Name:         "config",
				VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: p.Secret}},
			},
		},
	}}
}

// RulesOfOld changes rules to those that older providers create. The rule of port 80 gets a name without protocol. The
// rule of port 8080 becomes a plain tcp rule, which is what they create for a Service with the value "enabled" in its
// PROXY protocol annotation.
func RulesOfOld(ctx context.Context, client *cloudstack.Client, rules map[string]Rule) (err error) {
	defer must.Return(&err)
	for id, r := range rules {
		name, protocol := r.Name, r.Protocol
		switch r.PublicPort {
		case 80:
			// The names of providers that do not support the PROXY protocol.
			name = strings.Replace(name, "-tcp-80", "-80", 1)
		case 8080:
			name, protocol = strings.Replace(name, "-tcp-proxy-", "-tcp-", 1), "tcp"
		}
		s := must.Get(client.UpdateLoadBalancerRule(ctx,
			cloudstack.UpdateLoadBalancerRuleRequest{ID: id, Name: name, Protocol: protocol, Algorithm: r.Algorithm}))
		must.Get(client.Jobs().Wait(ctx, "updateLoadBalancerRule", s.JobID))
	}
	return nil
}

// RulesByID returns the rules of public addresses by their IDs.
func RulesByID(ctx context.Context, client *cloudstack.Client, addresses ...string) (_ map[string]Rule, err error) {
	defer must.Return(&err)
	all := map[string]Rule{}
	for _, address := range addresses {
		list := must.Get(Rules(ctx, client, address))
		for _, r := range list {
			all[r.ID] = r
		}
	}
	return all, nil
}
