// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/installer/kube/cluster"
)

var update = flag.Bool("update", false, "write the remedies into docs/distributions.md")

// The page for each distribution contains the remedy that csccm doctor prints for it.
func TestRemediesOfTheDocs(t *testing.T) {
	t.Parallel()
	var parts []pages.Part
	for _, d := range []cluster.Distribution{
		cluster.Kubeadm, cluster.K3s, cluster.RKE2, cluster.K0s, cluster.Talos, cluster.CKS, cluster.ClusterAPI, cluster.Unknown,
	} {
		parts = append(parts, pages.Part{Name: "remedy: " + string(d), Want: "> " + remedies[d]})
	}
	stale, err := pages.Refresh(filepath.Join("..", "..", "..", "docs", "distributions.md"), parts, *update)
	require.NoError(t, err)
	require.Empty(t, stale, "go test ./installer/kube/kubelet -run Docs -update")
}
