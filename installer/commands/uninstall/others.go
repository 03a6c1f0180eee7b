// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// others refuses to take credentials away that somebody else works with: Pods that read the Secret, and Secrets with the same
// keys where the keys end.
func (p *Plan) others(ctx context.Context, u *run) error {
	if !p.secret && !p.endsKeys() {
		return nil
	}
	core := u.Cluster.Kube.CoreV1()
	pods, err := core.Pods(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return u.Cluster.Explain(err)
	}
	foreign := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return cluster.InRelease(pod.Labels, p.Release) })
	var who []string
	for _, user := range secretusers.Of(foreign, p.Namespace, credentials.SecretName) {
		who = append(who, user.String())
	}
	if p.endsKeys() {
		secrets, err := core.Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			p.Warnings = append(p.Warnings, "other namespaces may hold the same keys, which end: you may not list their Secrets")
			secrets = &corev1.SecretList{}
		} else if err != nil {
			return u.Cluster.Explain(err)
		}
		for _, c := range secretusers.Copies(secrets.Items, []string{p.apiKey}, nil) {
			if c.Namespace != p.Namespace || c.Name != credentials.SecretName {
				who = append(who, "Secret "+c.String())
			}
		}
	}
	if len(who) == 0 {
		return nil
	}
	return &report.Error{
		What: "nothing was changed: others work with these credentials: " + strings.Join(who, ", "),
		Fix:  "give them keys of their own first, or leave out --delete-secret and --delete-user", Code: report.ExitCheckFailed,
	}
}

// notByHelm is the error of a controller that Helm knows nothing of; nil without one.
func (p *Plan) notByHelm(ctx context.Context, u *run) error {
	if p.Revision > 0 {
		return nil
	}
	w, _, err := u.Waiter().Read(ctx)
	if errors.Is(err, rollout.ErrNoWorkload) {
		return nil
	}
	if err != nil {
		return err
	}
	return &report.Error{
		What: fmt.Sprintf("nothing was changed: %s %s/%s was not made by Helm", w.Kind, w.Namespace, w.Name),
		Fix:  "delete what made it: the application of GitOps, or csccm template | kubectl delete -f -; then csccm uninstall removes the rest",
		Code: report.ExitCheckFailed,
	}
}
