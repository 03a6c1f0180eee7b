// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights is the table of the permissions that csccm needs in Kubernetes. Check K8S-003 and docs/csccm-rights.yaml are
// based on it, and the system tests compare it with the API server's audit log.
package rights

import "slices"

//go:generate go run ./gen

// Place is the namespace in which a right is needed.
type Place string

// Places.
const (
	// Everywhere is for cluster-scoped resources and for resources that are needed in all namespaces.
	Everywhere Place = ""
	// Release is the namespace of the release.
	Release Place = "release"
	// System is the namespace of other providers, their lease and kubeadm's settings.
	System Place = "kube-system"
	// Heartbeats is the namespace in which kubelets renew their leases.
	Heartbeats Place = "kube-node-lease"
	// Elsewhere is all namespaces, for requests that csccm sends only if the user has the permission. No role of
	// docs/csccm-rights.yaml grants it.
	Elsewhere Place = "everywhere, if granted"
	// Tested is the namespace in which csccm test works. No role of docs/csccm-rights.yaml grants it.
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
	Sometimes bool // it is needed only under a condition
	// Chart marks rights on objects of the chart, which are needed only if the rendered chart has such objects.
	Chart bool
}

// Request is one verb of a right, with the attributes of a SubjectAccessReview.
type Request struct{ Verb, Group, Resource, Namespace string }

func (r Request) String() string {
	what := r.Verb + " " + r.Resource
	if r.Group != "" {
		what += "." + r.Group
	}
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return what
}

// Kind is the group and resource of a kind of object.
type Kind struct{ Group, Resource string }

// Requests returns the unconditional requests of a command; it can continue without the optional ones. release is the
// namespace of the release. kinds are the kinds of objects in the rendered chart; nil means those of the default
// values.
func Requests(command, release string, kinds []Kind) (needed, optional []Request) {
	table := Table()
	for i := range table {
		r := &table[i]
		skip := r.Sometimes
		if r.Chart && kinds != nil {
			skip = !slices.Contains(kinds, Kind{r.Group, r.Resource})
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

// Allows reports whether a right permits a command's request. The command install may also do a takeover.
func (r *Right) Allows(command string, x Request, release string) bool {
	return r.Group == x.Group && r.Resource == x.Resource && slices.Contains(r.Verbs, x.Verb) &&
		(slices.Contains(r.Commands, command) || command == "install" && slices.Contains(r.Commands, "takeover")) &&
		(r.Place == Everywhere || r.Place == Elsewhere || r.Place == Tested || r.Place.Namespace(release) == x.Namespace)
}
