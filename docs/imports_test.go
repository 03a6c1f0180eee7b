// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestControllerLinksNothingOfTheInstaller: everything that the controller links runs in the cluster with the keys of CloudStack.
func TestControllerLinksNothingOfTheInstaller(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/cloudstack-ccm")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "github.com/csccm/csccm/pkg/provider\n")
	for p := range strings.Lines(string(out)) {
		for _, unwanted := range []string{"github.com/csccm/csccm/installer/", "sigs.k8s.io/kustomize/", "helm.sh/"} {
			require.False(t, strings.HasPrefix(p, unwanted), "cmd/cloudstack-ccm imports %s", p)
		}
	}
}
