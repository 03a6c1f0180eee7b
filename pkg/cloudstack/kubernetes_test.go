// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListKubernetesClusters(t *testing.T) {
	t.Parallel()
	f := goldenAPI(t, "listKubernetesClusters.by-id-with-vms")
	list, err := f.client(t).ListKubernetesClusters(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, []KubernetesCluster{{
		ID: "4be17028-6145-408b-b431-52c8074ea5fe", Name: "ext0", State: "Running", Type: "ExternalManaged", Version: "", NetworkName: "",
		VMs: []string{"f1db34f8-ed2e-4d48-8931-dc1a06f72c9c", "c6b00d13-fbaf-44cd-ba24-6f90b660474b", "8648015f-e2d3-484f-b6a1-5b19593d0869", "fae1c4e4-86fe-46d9-b8e9-88a96136e04f"},
	}}, list)
	require.Equal(t, "p", f.recorded()[0].Form.Get("projectid"))
}
