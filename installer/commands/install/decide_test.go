// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// csccm derives values from the cluster again when the cluster has changed. Values that the operator chose stay. csccm
// template prints the same values as install.
func TestValuesFollowTheCluster(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given map[string]any
		want  any // replicaCount with two control plane nodes
	}{
		"decided by csccm":    {nil, nil},
		"the operator's wish": {map[string]any{"replicaCount": 1}, 1},
	} {
		for _, command := range []string{"install", "template"} {
			t.Run(name+", "+command, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				o := e.keys(t)
				o.Values = tc.given
				e.install(t, o)
				require.EqualValues(t, 1, e.Releases.Release().Values["replicaCount"])
				values, err := Values(t.Context(), e.Env.Env, nil)
				require.NoError(t, err)
				require.EqualValues(t, 1, values["replicaCount"])
				e.install(t, Config{})
				require.Equal(t, 1, e.Releases.Applied, "nothing to do")

				n, err := e.Kube.CoreV1().Nodes().Get(t.Context(), "demo-worker-1", metav1.GetOptions{})
				require.NoError(t, err)
				n.Labels["node-role.kubernetes.io/control-plane"] = ""
				_, err = e.Kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
				require.NoError(t, err)
				switch command {
				case "install":
					e.install(t, Config{})
					values = e.Releases.Release().Values
				case "template":
					values, err = Values(t.Context(), e.Env.Env, nil)
				}
				require.NoError(t, err)
				require.Equal(t, tc.want, values["replicaCount"])
			})
		}
	}
}
