// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/registration"
)

// hasKeys gives the Secret the keys of a CloudStack.
func hasKeys(t *testing.T, e *testenv.Env, cloud *testenv.Cloud) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: credentials.SecretName},
		Data:       map[string][]byte{credentials.SecretKey: cloud.Config(t, "").Render()},
	}
	_, err := e.Kube.CoreV1().Secrets(testenv.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// A Pod of somebody else that reads the Secret keeps it; the controller alone may go.
func TestUninstallKeepsTheSecretOfOthers(t *testing.T) {
	t.Parallel()
	driver := testenv.ReadyPod("csi-0")
	driver.Labels = map[string]string{"app": "csi"}
	driver.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: credentials.SecretName}}}}
	e := newEnv(t, driver)
	err := Run(t.Context(), e.Env, Options{DeleteSecret: true})
	testenv.RequireRefusal(t, err, "nothing was changed: others work with these credentials: Pod kube-system/csi-0", "leave out --delete-secret", report.ExitCheckFailed)
	require.NotNil(t, e.Releases.Release())
	require.NotNil(t, e.Secret(t, credentials.SecretName))
	require.NoError(t, Run(t.Context(), e.Env, Options{}))
	require.Nil(t, e.Releases.Release())
	require.NotNil(t, e.Secret(t, credentials.SecretName))
}

// A Secret elsewhere with the same keys keeps the user: its keys would end.
func TestUninstallKeepsTheUserOfOthers(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCloud(t, nil)
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "backup", Name: "keys"}, Data: map[string][]byte{"cloud-config": cloud.Config(t, "").Render()}}
	e := newEnv(t, copied)
	hasKeys(t, e, cloud)
	e.Kube.PrependReactor("create", "selfsubjectaccessreviews", func(ktesting.Action) (bool, kruntime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	admin := cloud.Admin(t)
	config := cloud.Config(t, "")
	users, err := admin.ListUsers(t.Context(), "")
	require.NoError(t, err)
	for _, u := range users {
		if u.APIKey == config.APIKey {
			made := []*credentials.MadeObject{{Kind: credentials.MadeUser, Name: u.Username, ID: u.ID, Account: u.Account, DomainID: u.DomainID, Domain: u.Domain}}
			require.NoError(t, credentials.Recorded(t.Context(), e.Cluster, config, made, func() error { return nil }))
		}
	}
	o := Options{DeleteUser: true, Admin: func(context.Context, *engine.Env, *cloudstack.Config) (*cloudapi.Client, func(), error) {
		return admin, func() {}, nil
	}}
	err = Run(t.Context(), e.Env, o)
	testenv.RequireRefusal(t, err, "others work with these credentials: Secret backup/keys", "leave out --delete-secret and --delete-user", report.ExitCheckFailed)
	require.NotNil(t, e.Releases.Release())
	after, err := admin.ListUsers(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, after, len(users))
}

// A run that ^C stopped after the release was deleted has left the entry in CloudStack's UI. The second run removes it.
func TestUninstallGoesOnAfterInterrupt(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCloud(t, nil)
	e := newEnv(t)
	hasKeys(t, e, cloud)
	owner := cloud.Client(t, "")
	vms, err := owner.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	_, err = registration.Sync(t.Context(), owner.Client, &registration.Entry{
		Name: "prod", ClusterID: string(testenv.KubeSystem().UID), ZoneID: vms[0].ZoneID, Workers: sets.New(vms[0].ID),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	e.Releases.Changed = func(context.Context, *helm.Release) error { cancel(); return nil }
	err = Run(ctx, e.Env, Options{})
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, e.Releases.Release())

	e.Stdout.Reset()
	require.NoError(t, Run(t.Context(), e.Env, Options{}), e.Stderr.String())
	require.Contains(t, e.Stdout.String(), "delete      entry prod in CloudStack's UI")
	entries, err := owner.ListKubernetesClusters(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, Run(t.Context(), e.Env, Options{}))
	require.Contains(t, e.Stdout.String(), "there is nothing to remove")
}

// A controller that a manifest or GitOps made is not called nothing.
func TestUninstallOfAManifest(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Deployment(1))
	e.Releases.Kept = nil
	err := Run(t.Context(), e.Env, Options{DeleteSecret: true})
	testenv.RequireRefusal(t, err, "nothing was changed: Deployment kube-system/", "csccm template | kubectl delete -f -", report.ExitCheckFailed)
	require.NotNil(t, e.Secret(t, credentials.SecretName))
}
