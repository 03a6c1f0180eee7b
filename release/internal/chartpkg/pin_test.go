// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
)

// A released chart uses the controller's image by digest unless a value overrides it.
func TestReleasedChartIsPinned(t *testing.T) {
	t.Parallel()
	own := "sha256:" + strings.Repeat("a", 64)
	other := "sha256:" + strings.Repeat("b", 64)
	packed, err := Pack(folder, tree("1.2.3"), Annotations{Digest: own})
	require.NoError(t, err)
	file, err := packed.Write(t.TempDir())
	require.NoError(t, err)
	chart, err := helm.Load(file, "")
	require.NoError(t, err)

	image := regexp.MustCompile(`(?m)^ +image: "?([^"\n]+)"?$`)
	for want, values := range map[string]map[string]any{
		"ghcr.io/csccm/cloudstack-ccm:v1.2.3@" + own:   nil,
		"registry.example.org/x:v1.2.3@" + own:         {"repository": "registry.example.org/x"},
		"ghcr.io/csccm/cloudstack-ccm:v9":              {"tag": "v9"},
		"ghcr.io/csccm/cloudstack-ccm:v1.2.3@" + other: {"digest": other},
		"registry.example.org/x:v9@" + other:           {"repository": "registry.example.org/x", "tag": "v9", "digest": other},
		"registry.example.org/y:v1.2.3":                {"repository": "registry.example.org/y", "tag": "v1.2.3"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			request := helm.ApplyRequest{Name: charts.Name, Chart: chart, KubeVersion: "v1.37.1"}
			if values != nil {
				request.Values = map[string]any{"image": values}
			}
			out, err := helm.Template(t.Context(), "kube-system", request)
			require.NoError(t, err)
			found := image.FindAllStringSubmatch(out, -1)
			require.NotEmpty(t, found)
			for _, f := range found {
				assert.Equal(t, want, f[1])
			}
		})
	}
}
