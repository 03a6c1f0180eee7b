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

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// others refuses to take credentials away that somebody else works with: Pods that read the Secret, and Secrets with the same
// keys where the keys end.
func (p *Plan) others(ctx context.Context, u *run) error {
	if !p.secret && !p.ends {
		return nil
	}
	values := []string{}
	if p.ends {
		values = append(values, u.owner.Config.APIKey)
	}
	found, err := secretusers.Find(ctx, u.Cluster.Kube, p.Namespace, credentials.SecretName, credentials.SecretKey, values)
	if err != nil {
		return u.Cluster.Explain(err)
	}
	var who []string
	for i := range found.Users {
		if user := &found.Users[i]; slices.ContainsFunc(user.Pods, func(pod *corev1.Pod) bool { return !cluster.InRelease(pod.Labels, p.Release) }) {
			who = append(who, user.String())
		}
	}
	for i := range found.Copies {
		if c := &found.Copies[i]; c.Namespace != p.Namespace || c.Name != credentials.SecretName {
			who = append(who, "Secret "+c.String())
		}
	}
	for _, what := range found.NotRead {
		p.Warnings = append(p.Warnings, "you may not list "+what+", which may hold the same keys, which end")
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
		What: fmt.Sprintf("nothing was changed: %s was not made by Helm", w),
		Fix:  "delete what made it: the application of GitOps, or csccm template | kubectl delete -f -; then csccm uninstall removes the rest",
		Code: report.ExitCheckFailed,
	}
}
