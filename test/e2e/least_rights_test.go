// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/rights"
)

// TestLeastRights runs csccm as people who have no more than docs/csccm-rights.yaml gives them: from an install to the
// uninstall, and what only reads. The audit log would show a request that is refused.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1, joined(worker1), joined(worker2))
	apply := exec.CommandContext(t.Context(), env.Kubectl, "--kubeconfig", env.Kubeconfig, "apply", "-f", "../../docs/csccm-rights.yaml")
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, group := range []string{rights.Operator, rights.Reader} {
		for _, resource := range []authorizationv1.ResourceAttributes{{Verb: "list", Resource: "nodes"}, {Verb: "get", Resource: "secrets", Namespace: metav1.NamespaceSystem}} {
			env.eventually(t, fmt.Sprintf("%s to be allowed to %s %s", group, resource.Verb, resource.Resource), func(ctx context.Context) error {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane", Groups: []string{group}, ResourceAttributes: &resource}}
				review, err := env.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err == nil && !review.Status.Allowed {
					err = errors.New("not yet")
				}
				return err
			})
		}
	}
	as := func(group, stdin string, want int, args ...string) string {
		t.Helper()
		out, code := env.csccm(t, stdin, append(args, "--as", "jane", "--as-group", group)...)
		if code != want {
			t.Fatalf("csccm %s as %s ended with %d:\n%s", args[0], group, code, out)
		}
		return out
	}
	out := as(rights.Operator, adminPassword+"\n", 0, installArgs(env)...)
	for _, lacks := range []string{"K8S-003", "may not"} {
		if strings.Contains(out, lacks) {
			t.Errorf("the install says %q:\n%s", lacks, out)
		}
	}
	env.initialized(t, cp1.Name, worker1.Name, worker2.Name)
	env.balanced(t, "web", 80)
	env.address(t, "web")

	for _, args := range [][]string{
		{"doctor"}, {"status"}, {"plan"}, {"support-bundle", "--file", filepath.Join(env.home, "bundle.tar.gz")}, {"migrate-rules", "--yes"}, {"taint", "--dry-run"},
		{"takeover", "--dry-run"}, {"upgrade", "--yes", "--set", "logVerbosity=3"}, {"rollback", "--yes"},
	} {
		as(rights.Operator, "", 0, args...)
	}
	for _, args := range [][]string{{"doctor"}, {"status"}, {"plan"}, {"support-bundle", "--file", filepath.Join(env.home, "read.tar.gz")}} {
		as(rights.Reader, "", 0, args...)
	}
	if out := as(rights.Reader, "", 3, "doctor", "--phase", "preflight", "--only", "K8S-003"); !strings.Contains(strings.Join(strings.Fields(out), " "), "patch nodes") {
		t.Errorf("K8S-003 does not say that a reader cannot install:\n%s", out)
	}

	env.remove(t, "web")
	as(rights.Operator, "", 0, "uninstall", "--yes", "--delete-secret")
}
