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

// right is something the caller of an installation does.
type right struct {
	verb, group, resource, subresource string
	namespaced                         bool
}

func (r right) String() string {
	what := r.resource
	if r.subresource != "" {
		what += "/" + r.subresource
	}
	if r.group != "" {
		what += "." + r.group
	}
	return r.verb + " " + what
}

// installRights are what the installation does, beside what is in the chart's manifest: read and
// taint nodes, ask kubelets, write the Secret and Helm's records, apply the chart's kinds.
func installRights() []right {
	const (
		apps  = "apps"
		rbac  = "rbac.authorization.k8s.io"
		coord = "coordination.k8s.io"
	)
	rights := []right{
		{"list", "", "nodes", "", false},
		{"patch", "", "nodes", "", false},
		{"get", "", "nodes", "proxy", false},
		{"list", "", "services", "", false},
		{"list", "", "events", "", false},
		{"list", "", "pods", "", true},
		{"get", "", "pods", "log", true},
		{"list", coord, "leases", "", true},
		{"list", apps, "deployments", "", false},
		{"list", apps, "daemonsets", "", false},
		{"list", "", "secrets", "", true},
	}
	for _, o := range []right{
		{"", "", "secrets", "", true},
		{"", "", "serviceaccounts", "", true},
		{"", apps, "deployments", "", true},
		{"", rbac, "clusterroles", "", false},
		{"", rbac, "clusterrolebindings", "", false},
		{"", rbac, "roles", "", true},
		{"", rbac, "rolebindings", "", true},
	} {
		for _, verb := range []string{"create", "get", "patch", "update"} {
			o.verb = verb
			rights = append(rights, o)
		}
	}
	return rights
}

// reviewsAtOnce bounds the calls of the permission check.
const reviewsAtOnce = 8

func runPermissions(ctx context.Context, e *Env) Finding {
	rights := installRights()
	denied := make([]bool, len(rights))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i, r := range rights {
		group.Go(func() error {
			a := &authorizationv1.ResourceAttributes{Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource}
			if r.namespaced {
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

func decidePermissions(rights []right, denied []bool, refused []Object, namespace string) Finding {
	var missing []string
	for i, r := range rights {
		if !denied[i] {
			continue
		}
		text := r.String()
		if r.namespaced {
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
