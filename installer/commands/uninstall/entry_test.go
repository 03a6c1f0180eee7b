// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/simulator"
)

// The entry in CloudStack's UI goes with the controller. One that cannot be deleted stays.
func TestUninstallAndTheEntryInCloudStack(t *testing.T) {
	t.Parallel()
	const deletes, list = "deleteKubernetesCluster", "listKubernetesClusters"
	for name, tc := range map[string]struct {
		kept    bool
		refused string
		says    string
		gone    bool
	}{
		"kept by the controller":          {kept: true, says: "delete      entry prod in CloudStack's UI; no VM is changed", gone: true},
		"no longer kept":                  {says: "delete      entry prod in CloudStack's UI", gone: true},
		"CloudStack refuses the deletion": {kept: true, refused: deletes, says: "delete      entry prod in CloudStack's UI"},
		"CloudStack does not list it":     {kept: true, refused: list, says: "delete      Helm release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uid := string(testenv.KubeSystem().UID)
			d := testenv.Deployment(1)
			d.Spec.Template.Spec.Containers[0].Args = []string{"--cloud-provider=external-cloudstack"}
			if tc.kept {
				d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "--register-cluster=prod")
			}
			e := newEnv(t, d)
			cloud := testenv.NewCloud(t, nil)
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: credentials.SecretName},
				Data:       map[string][]byte{credentials.SecretKey: cloud.Config(t, "").Render()},
			}
			_, err := e.Kube.CoreV1().Secrets(testenv.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
			require.NoError(t, err)
			owner := cloud.Client(t, "")
			vms, err := owner.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
			require.NoError(t, err)
			_, err = registration.Sync(t.Context(), owner.Client, &registration.Entry{Name: "prod", ClusterID: uid, ZoneID: vms[0].ZoneID, Workers: sets.New(vms[0].ID)})
			require.NoError(t, err)
			unfault := func() {}
			if tc.refused != "" {
				unfault = cloud.Inject(simulator.Fault{Command: tc.refused, Kind: simulator.FaultErrorBefore, HTTPStatus: 432, Text: "no"})
			}
			require.NoError(t, Run(t.Context(), e.Env, Options{}), e.Stderr.String())
			unfault()
			require.Contains(t, e.Stdout.String(), tc.says)
			require.Nil(t, e.Releases.Release(), "the controller goes in any case")
			entries, err := owner.ListKubernetesClusters(t.Context(), "")
			require.NoError(t, err)
			require.Equal(t, tc.gone, len(entries) == 0)
			vms, err = owner.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
			require.NoError(t, err)
			require.Len(t, vms, 3, "no VM is touched")
		})
	}
}
