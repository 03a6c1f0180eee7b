// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights has the table of the permissions that csccm needs in Kubernetes. Check K8S-003 and
// docs/csccm-rights.yaml are based on it, and the system tests compare it with the API server's audit log.
package rights

import (
	"context"
	_ "embed" // for the table
	"os"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

//go:generate go test . -run TestRoles -update

// Names of the roles of docs/csccm-rights.yaml and of the groups that they are bound to.
const (
	Operator = "csccm-operator"
	Reader   = "csccm-reader"
)

// Place is the namespace in which a right is needed.
type Place string

// Places.
const (
	// Everywhere is for cluster-scoped resources and for resources that are needed in all namespaces.
	Everywhere Place = ""
	// Release is the namespace of the release.
	Release Place = "release"
	// System is the namespace of other cloud providers, their leases and kubeadm's settings.
	System Place = "kube-system"
	// Heartbeats is the namespace of the Leases that kubelets renew as heartbeats.
	Heartbeats Place = "kube-node-lease"
	// Elsewhere is for rights in all namespaces that csccm uses only if the user happens to have them. No role of
	// docs/csccm-rights.yaml grants them.
	Elsewhere Place = "everywhere, if granted"
	// Tested is the namespace in which csccm test works. No role of docs/csccm-rights.yaml grants rights there.
	Tested Place = "namespace of csccm test"
)

// Namespace returns the name of the namespace; "" for Everywhere.
func (p Place) Namespace(release string) string {
	if p == Release {
		return release
	}
	return string(p)
}

// Right is one row of the table.
type Right struct {
	Verbs []string
	Group string
	// Resource includes the subresource, if any: pods/log.
	Resource string
	Place    Place
	// Commands are the commands of csccm that need the right.
	Commands  []string
	Why       string
	Optional  bool // csccm can continue without it
	Sometimes bool // needed only under a condition
	// Chart marks rights on objects of the chart, which are needed only if the rendered chart has such objects.
	Chart bool
}

// Request is one verb of a right, with the attributes of a SubjectAccessReview.
type Request struct{ Verb, Group, Resource, Namespace string }

func (r Request) String() string {
	what := r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return what
}

// Allowed reports whether the API server allows the caller to make the request.
func (r Request) Allowed(ctx context.Context, kube kubernetes.Interface) (bool, error) {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace,
			}},
		}, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}

// Requests returns the requests that a command always makes. The command can continue without the optional ones.
// release is the namespace of the release. kinds are the kinds of objects in the rendered chart; nil means those of the
// default values.
func Requests(command, release string, kinds []schema.GroupResource) (needed, optional []Request) {
	table := Table()
	for _, r := range table {
		skip := r.Sometimes
		if r.Chart && kinds != nil {
			skip = !slices.Contains(kinds, schema.GroupResource{Group: r.Group, Resource: r.Resource})
		}
		if skip || !slices.Contains(r.Commands, command) {
			continue
		}

		to := &needed
		if r.Optional {
			to = &optional
		}
		for _, verb := range r.Verbs {
			if x := (Request{verb, r.Group, r.Resource, r.Place.Namespace(release)}); !slices.Contains(*to, x) {
				*to = append(*to, x)
			}
		}
	}

	return needed, slices.DeleteFunc(optional, func(x Request) bool { return slices.Contains(needed, x) })
}

// source is the table in YAML.
//
//go:embed rights.yaml
var source []byte

// row is a row of the source: rights on several resources.
type row struct {
	Verbs, Resources, Commands, Why string
	Place                           Place
	Optional, Sometimes             bool
}

// rights returns the rights of a row, one for each resource. words are the values of the ${variables} in the row.
func (r row) rights(words map[string]string) (out []Right) {
	fields := func(text string) []string {
		return strings.Fields(os.Expand(text, func(name string) string { return words[name] }))
	}
	for _, resource := range fields(r.Resources) {
		right := Right{
			Verbs:     fields(r.Verbs),
			Commands:  fields(r.Commands),
			Why:       r.Why,
			Optional:  r.Optional,
			Sometimes: r.Sometimes,
			Place:     r.Place,
		}
		right.Resource, right.Group, _ = strings.Cut(resource, ".")
		out = append(out, right)
	}
	return out
}

// Table returns all permissions that csccm needs, except those that every authenticated user has: versions, API
// discovery and self-subject access reviews.
func Table() (out []Right) {
	var table struct {
		Words map[string]string
		Rows  []row
		Chart struct{ Rights, Objects []row }
	}
	if err := yaml.UnmarshalStrict(source, &table); err != nil {
		panic(err) // a test parses it
	}

	for _, r := range table.Rows {
		out = append(out, r.rights(table.Words)...)
	}
	for _, object := range table.Chart.Objects {
		for _, r := range table.Chart.Rights {
			r.Resources, r.Place, r.Sometimes = object.Resources, object.Place, object.Sometimes
			for _, right := range r.rights(table.Words) {
				right.Chart = true
				out = append(out, right)
			}
		}
	}
	return out
}
