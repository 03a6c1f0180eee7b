// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestOpenShift installs in a namespace whose Pods the API server treats as OpenShift's restricted-v2 does: it gives them user and groups
// of the namespace, and refuses what names others. The defaults are refused; with the values of ci/openshift the same install goes on,
// and the controller runs as the namespace's user. The namespace also enforces the Pod Security Standard restricted.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	e := newClusterEnv(t, nil)
	e.join(t, cp1)
	const namespace = metav1.NamespaceSystem
	const level = "pod-security.kubernetes.io/enforce"
	if out, err := e.kubectl(t.Context(), "", "label", "namespace", namespace, level+"=restricted"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { // another test gets this control plane
		if out, err := e.kubectl(context.Background(), "", "label", "namespace", namespace, level+"-"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	if out, err := e.kubectl(t.Context(), "", "create", "-f", "testdata/restricted-v2.yaml"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e.eventually(t, "both policies to be in force", func(ctx context.Context) error {
		for user, refused := range map[int64]bool{0: false, 1000: true} {
			got, err := e.Client.CoreV1().Pods(namespace).Create(ctx, restrictedPod(user), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			switch {
			case refused && (err == nil || !strings.Contains(err.Error(), "Policy 'restricted-v2'")):
				return fmt.Errorf("the user %d: %w", user, errors.Join(err, errors.New("restricted-v2 refuses it")))
			case !refused && err != nil:
				return err
			case !refused && ptr.Deref(got.Spec.SecurityContext.RunAsUser, 0) != 1000650000:
				return errors.New("a Pod gets no user of the namespace")
			}
		}
		return nil
	})

	here := []string{"--set", "replicaCount=1"}
	if s := e.csccm(t, adminPassword+"\n", installArgs(e, append(here, "--rollout-timeout", "1s")...)...); s.code == 0 {
		t.Fatalf("the defaults are installed:\n%s", s.all)
	}
	e.eventually(t, "the defaults to be refused", func(ctx context.Context) error {
		d, err := e.Client.AppsV1().Deployments(namespace).Get(ctx, "cloudstack-cloud-controller-manager", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentReplicaFailure && strings.Contains(c.Message, "runAsUser is not in the range of the namespace")
		}) {
			return fmt.Errorf("the conditions of the Deployment are %v", d.Status.Conditions)
		}
		return nil
	})
	values, err := filepath.Abs(filepath.Join(chartDir, "ci", "openshift-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e.csccm(t, adminPassword+"\n", installArgs(e, append(here, "--values", values)...)...).want(t, 0, "1 running")
	pods, err := e.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d Pods: %v", len(pods.Items), err)
	}
	have := pods.Items[0].Spec.SecurityContext
	if ptr.Deref(have.RunAsUser, 0) != 1000650000 || ptr.Deref(have.FSGroup, 0) != 1000650000 || have.RunAsGroup != nil {
		t.Errorf("the controller has the security context %v", have)
	}
	e.initialised(t, 1)
	e.csccm(t, "", "doctor").want(t, 0)
}

// restrictedPod is a Pod that restricted-v2 admits, unless it names a user; 0 names none.
func restrictedPod(user int64) *corev1.Pod {
	no, yes := false, true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "probe", Image: "probe", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}
	if user != 0 {
		p.Spec.SecurityContext.RunAsUser = &user
	}
	return p
}
