// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check"
)

// Every kind of the chart by default is on the list that K8S-003 asks about.
func TestInstallRightsCoverTheChart(t *testing.T) {
	t.Parallel()
	c := execute(t, "template", "--kube-version", "v1.37.1")
	require.Equal(t, 0, c.code, c.errOut)
	kinds := 0
	for _, doc := range strings.Split(c.out, "\n---") {
		var o struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
		if o.Kind == "" || o.Kind == "Pod" { // helm test's, which an installation does not make
			continue
		}
		kinds++
		gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		for _, verb := range []string{"create", "get", "patch"} {
			require.True(t, slices.ContainsFunc(check.InstallRights(), func(r check.Right) bool {
				return r.Verb == verb && r.Group == gvk.Group && r.Resource == resource.Resource && r.Subresource == ""
			}), "%s %s", verb, resource)
		}
	}
	require.Greater(t, kinds, 5)
}
