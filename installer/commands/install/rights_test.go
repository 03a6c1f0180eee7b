// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/rights"
)

// Whatever a whole installation asks of the API server is among what K8S-003 asks about.
func TestInstallRightsAreComplete(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.install(t, e.admin())
	needed, optional := rights.Requests("install", metav1.NamespaceSystem, nil)
	all := slices.Concat(needed, optional)
	asked := 0
	for _, a := range e.Kube.Actions() {
		r := a.GetResource()
		if r.Resource == "" || a.GetVerb() == "watch" || r.Resource == "selfsubjectaccessreviews" || r.Resource == "version" {
			continue
		}
		if r.Resource == "nodes" && a.GetVerb() == "update" || r.Resource == "deployments" && a.GetVerb() == "create" {
			continue // the controller, and Helm
		}
		if r.Resource == "namespaces" && a.GetVerb() == "create" {
			continue // only where it is not there yet, as here
		}
		asked++
		want := rights.Request{Verb: a.GetVerb(), Group: r.Group, Resource: r.Resource, Namespace: a.GetNamespace()}
		if s := a.GetSubresource(); s != "" {
			want.Resource += "/" + s
		}
		everywhere := want
		everywhere.Namespace = ""
		require.True(t, slices.Contains(all, want) || slices.Contains(all, everywhere), "%s", want)
	}
	require.Positive(t, asked)
}
