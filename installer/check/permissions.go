// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"
)

// Right is something the caller of an installation does.
type Right struct {
	Verb, Group, Resource, Subresource string
	Namespaced                         bool
}

func (r Right) String() string {
	what := r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	if r.Group != "" {
		what += "." + r.Group
	}
	return r.Verb + " " + what
}

// API groups of the rights.
const (
	groupApps      = "apps"
	groupRBAC      = "rbac.authorization.k8s.io"
	groupCoord     = "coordination.k8s.io"
	groupPolicy    = "policy"
	groupAdmission = "admissionregistration.k8s.io"
)

// InstallRights is all that an installation does by itself: read the cluster, ask kubelets, taint nodes, write the
// Secret, Helm's records, the journal and the CA, and apply the chart's kinds. Tests hold the list against the
// calls of an installation and the kinds of the chart.
func InstallRights() []Right {
	rights := []Right{
		{"list", "", "nodes", "", false},
		{"get", "", "nodes", "", false},
		{"patch", "", "nodes", "", false},
		{"get", "", "nodes", "proxy", false},
		{"get", "", "namespaces", "", false},
		{"list", "", "services", "", false},
		{"list", "", "events", "", false},
		{"list", "", "pods", "", true},
		{"get", "", "pods", "log", true},
		{"list", groupCoord, "leases", "", true},
		{"list", groupApps, "deployments", "", false},
		{"list", groupApps, "daemonsets", "", false},
		{"list", groupApps, "replicasets", "", true},
		{"list", "", "secrets", "", true},
		{"delete", "", "secrets", "", true}, // Helm's oldest record
	}
	for _, o := range []Right{
		{"", "", "secrets", "", true},
		{"", "", "configmaps", "", true}, // the journal, the snapshot of tainted nodes, the CA
		{"", "", "serviceaccounts", "", true},
		{"", groupApps, "deployments", "", true},
		{"", groupRBAC, "clusterroles", "", false},
		{"", groupRBAC, "clusterrolebindings", "", false},
		{"", groupRBAC, "roles", "", true},
		{"", groupRBAC, "rolebindings", "", true},
		{"", groupPolicy, "poddisruptionbudgets", "", true},
		{"", groupAdmission, "validatingadmissionpolicies", "", false},
		{"", groupAdmission, "validatingadmissionpolicybindings", "", false},
	} {
		for _, verb := range []string{"create", "get", "patch", "update"} {
			o.Verb = verb
			rights = append(rights, o)
		}
	}
	return rights
}

// reviewsAtOnce bounds the calls of the permission check.
const reviewsAtOnce = 8

func runPermissions(ctx context.Context, e *Env) Finding {
	rights := InstallRights()
	denied := make([]bool, len(rights))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i, r := range rights {
		group.Go(func() error {
			a := &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource}
			if r.Namespaced {
				a.Namespace = e.Namespace
			}
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}}
			answer, err := e.Cluster.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(gctx, review, metav1.CreateOptions{})
			if err != nil {
				return e.Cluster.Explain(err)
			}
			denied[i] = !answer.Status.Allowed
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return unread(&unreadError{"the permissions", err})
	}
	refused, err := e.refusedObjects(ctx)
	if err != nil {
		return unread(err)
	}
	return decidePermissions(rights, denied, refused, e.Namespace)
}

// refusedObjects are the objects of the manifest that the API server would not take from the caller:
// admission webhooks, quotas and policies refuse what the caller's rights allow.
func (e *Env) refusedObjects(ctx context.Context) ([]Object, error) {
	if e.Manifest == "" || e.Cluster.REST == nil {
		return nil, nil
	}
	wanted, err := parseManifest(e.Manifest)
	if err != nil {
		return nil, &unreadError{"the manifest", err}
	}
	client, err := e.objects()
	if err != nil {
		return nil, err
	}
	reasons := make([]string, len(wanted))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	for i := range wanted {
		group.Go(func() error {
			_, err := client.dryRun(gctx, &wanted[i])
			if err == nil || isNotFound(err) { // the namespace is still to be made
				return nil
			}
			if reasons[i] = reasonOf(err); reasons[i] == "" {
				return &unreadError{"the answer to " + wanted[i].GetKind() + " " + wanted[i].GetName(), e.Cluster.Explain(err)}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []Object
	for i, why := range reasons {
		if why != "" {
			out = append(out, objectOf(&wanted[i], e.Namespace, "%s", why))
		}
	}
	return out, nil
}

func decidePermissions(rights []Right, denied []bool, refused []Object, namespace string) Finding {
	var missing []string
	for i, r := range rights {
		if !denied[i] {
			continue
		}
		text := r.String()
		if r.Namespaced {
			text += " in " + namespace
		}
		missing = append(missing, text)
	}
	if len(missing) == 0 && len(refused) > 0 {
		return bad("the API server would refuse %s of the chart", count(len(refused), "object")).about(refused...)
	}
	if len(missing) == 0 {
		return ok("all %d rights of an installation", len(rights))
	}
	slices.Sort(missing)
	return bad("the caller may not: %s", strings.Join(missing, ", ")).about(refused...)
}
