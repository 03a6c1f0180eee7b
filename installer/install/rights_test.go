// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check"
)

// Whatever a whole installation asks of the API server is on the list that K8S-003 asks about.
func TestInstallRightsAreComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	require.NoError(t, b.installer(t, b.admin()).Run(t.Context()), b.err.String())
	rights := check.InstallRights()
	asked := 0
	for _, a := range b.kube.Actions() {
		r := a.GetResource()
		if r.Resource == "" || a.GetVerb() == "watch" || r.Resource == "selfsubjectaccessreviews" || r.Resource == "version" {
			continue
		}
		if r.Resource == "nodes" && a.GetVerb() == "update" || r.Resource == "deployments" && a.GetVerb() == "create" {
			continue // the bench's controller, and its Helm
		}
		if r.Resource == "namespaces" && a.GetVerb() == "create" {
			continue // only where it is not there yet, as here
		}
		asked++
		require.True(t, slices.ContainsFunc(rights, func(x check.Right) bool {
			return x.Verb == a.GetVerb() && x.Group == r.Group && x.Resource == r.Resource && x.Subresource == a.GetSubresource()
		}), "%s %s/%s", a.GetVerb(), r.Resource, a.GetSubresource())
	}
	require.Positive(t, asked)
}
