// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/simulator"
)

func newEnv(t *testing.T, objects ...runtime.Object) *testenv.Env {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: testenv.Namespace, Name: access.SecretName}
	e := testenv.New(t, append(objects,
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"cloud-config": []byte("canary")}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: access.CAConfigMap}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "old"},
			Spec:       corev1.NodeSpec{ProviderID: "external-cloudstack://1"},
		},
	)...)
	e.Releases.Kept = []helm.Release{{Name: "cloudstack-ccm", Revision: 2, Status: "deployed", ChartVersion: "1.0.0"}}
	return e
}

// hasKeys gives the Secret the keys of a CloudStack, which lists the cluster as prod with one VM.
func hasKeys(t *testing.T, e *testenv.Env, cloud *testenv.Cloud) *cloudapi.Client {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: access.SecretName},
		Data:       map[string][]byte{access.SecretKey: cloud.Config(t, "").Render()},
	}

	_, err := e.Kube.CoreV1().Secrets(testenv.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
	owner := cloud.Client(t, "")
	vms, err := owner.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	entry := &registration.Entry{
		Name:      "prod",
		ClusterID: string(testenv.KubeSystem().UID),
		ZoneID:    vms[0].ZoneID,
		Workers:   sets.New(vms[0].ID),
	}

	_, err = registration.Sync(t.Context(), owner.Client, entry)
	require.NoError(t, err)
	return owner
}

func balanced(name string, class *string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  "default",
			Name:       name,
			Finalizers: []string{"other", helpers.LoadBalancerCleanupFinalizer},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class},
		Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}},
		},
	}
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	class := "other.example.org/lb"
	idle := leftby.Controller("idle", "apache/cloudstack-kubernetes-provider:v1.2.0", nil)
	idle.Spec.Replicas = ptr.To(int32(0)) // not by a takeover
	e := newEnv(t, balanced("others", &class), idle)
	nodes := func() []corev1.Node {
		list, err := e.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return list.Items
	}
	before := nodes()
	require.NoError(t, Run(t.Context(), e.Env, Options{}), e.Stderr.String())
	require.NotNil(t, e.Secret(t, access.SecretName))
	require.Equal(t, before, nodes(), "nodes are not touched")
	require.Nil(t, e.Releases.Release())
	for _, want := range []string{
		"delete      Helm release kube-system/cloudstack-ccm, chart 1.0.0",
		"keep        Secret kube-system/cloudstack-secret (--delete-secret removes it)",
		"keep        provider IDs, labels and addresses of the nodes",
		"! Deployment kube-system/idle has no Pods, and no controller would work\n",
	} {
		require.Contains(t, e.Stdout.String(), want)
	}
	require.NotContains(t, e.Stdout.String(), "others", "a Service of another controller")

	// The second run also deletes the Secret; nothing else is left to delete.
	e.Stdout.Reset()
	e.Output = "json"
	require.NoError(t, Run(t.Context(), e.Env, Options{DeleteSecret: true}))
	require.Nil(t, e.Secret(t, access.SecretName))
	var p engine.Plan
	require.NoError(t, json.Unmarshal(e.Stdout.Bytes(), &p))
	require.Equal(t,
		[]string{"deleted Secret kube-system/cloudstack-secret", "deleted ConfigMap kube-system/cloudstack-ca"}, p.Done)

	// The third run has nothing to do.
	e.Stdout.Reset()
	require.NoError(t, Run(t.Context(), e.Env, Options{DeleteSecret: true}))
	require.Contains(t, e.Stdout.String(), "there is nothing to remove")
	require.NotContains(t, e.Said(), "canary")
}

func TestUninstallWithLoadBalancers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, balanced("web", nil))
	for _, dry := range []bool{true, false} {
		e.DryRun = dry
		err := Run(t.Context(), e.Env, Options{})
		testenv.RequireRefusal(t, err,
			"nothing was changed: there are Services of type LoadBalancer (default/web), and without the controller "+
				"nobody changes their rules or releases their addresses", "--orphan-load-balancers",
			report.ExitCheckFailed)
		require.NotNil(t, e.Releases.Release())
	}
	require.Contains(t, e.Stdout.String(),
		"load balancer of Service default/web in CloudStack: address 203.0.113.9 with its rules",
		"the plan is shown all the same")

	require.NoError(t, Run(t.Context(), e.Env, Options{OrphanLoadBalancers: true}), e.Stderr.String())
	require.Contains(t, e.Stdout.String(),
		"finalizer "+helpers.LoadBalancerCleanupFinalizer+" of 1 Service: without a controller nobody can delete them")
	s, err := e.Kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"other", helpers.LoadBalancerCleanupFinalizer}, s.Finalizers)
}

func TestUninstallRefuses(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Answers("no")
	require.ErrorContains(t, Run(t.Context(), e.Env, Options{}), "nothing was changed: not confirmed")
	e.Yes, e.Journal = true, "/dev/full"
	require.ErrorContains(t, Run(t.Context(), e.Env, Options{}), "nothing has been changed")
	require.NotNil(t, e.Releases.Release())
}

// The entry in CloudStack's UI is deleted with the controller. An entry that cannot be deleted does not stop the
// uninstall.
func TestUninstallAndTheEntryInCloudStack(t *testing.T) {
	t.Parallel()
	const deletes, list = "deleteKubernetesCluster", "listKubernetesClusters"
	for name, tc := range map[string]struct {
		kept    bool
		refused string
		says    string
		gone    bool
	}{
		"kept by the controller": {
			kept:    true,
			refused: "none",
			says:    "delete      entry prod in CloudStack's UI; no VM is changed",
			gone:    true,
		},
		"no longer kept": {
			refused: "none",
			says:    "delete      entry prod in CloudStack's UI",
			gone:    true,
		},
		"CloudStack refuses the deletion": {
			kept:    true,
			refused: deletes,
			says:    "delete      entry prod in CloudStack's UI",
		},
		"CloudStack does not list it": {kept: true, refused: list, says: "delete      Helm release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := testenv.Deployment(1)
			d.Spec.Template.Spec.Containers[0].Args = []string{"--cloud-provider=external-cloudstack"}
			if tc.kept {
				d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args,
					"--register-cluster=prod")
			}

			e := newEnv(t, d)
			cloud := testenv.NewCloud(t, nil)
			owner := hasKeys(t, e, cloud)
			unfault := cloud.Inject(simulator.Fault{
				Command:    tc.refused,
				Kind:       simulator.FaultErrorBefore,
				HTTPStatus: 432,
				Text:       "no",
			})

			require.NoError(t, Run(t.Context(), e.Env, Options{}), e.Stderr.String())
			unfault()
			require.Contains(t, e.Stdout.String(), tc.says)
			require.Nil(t, e.Releases.Release(), "the controller goes in any case")
			entries, err := owner.ListKubernetesClusters(t.Context(), "")
			require.NoError(t, err)
			require.Equal(t, tc.gone, len(entries) == 0)
			vms, err := owner.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
			require.NoError(t, err)
			require.Len(t, vms, 3, "no VM is touched")
		})
	}
}

// The Secret is not deleted while a Pod of another workload reads it; the controller can still be removed.
func TestUninstallKeepsTheSecretOfOthers(t *testing.T) {
	t.Parallel()
	driver := testenv.ReadyPod("csi-0")
	driver.Labels = map[string]string{"app": "csi"}
	driver.Spec.Volumes = []corev1.Volume{
		{
			Name:         "c",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: access.SecretName}},
		},
	}

	e := newEnv(t, driver)
	err := Run(t.Context(), e.Env, Options{DeleteSecret: true})
	testenv.RequireRefusal(t, err, "nothing was changed: others use these credentials: Pod kube-system/csi-0",
		"leave out --delete-secret", report.ExitCheckFailed)
	require.NotNil(t, e.Releases.Release())
	require.NotNil(t, e.Secret(t, access.SecretName))
	require.NoError(t, Run(t.Context(), e.Env, Options{}))
	require.Nil(t, e.Releases.Release())
	require.NotNil(t, e.Secret(t, access.SecretName))
}

// The user is not deleted while another Secret holds its keys, because deleting the user would end them. The release's
// Secret may hold other keys, or none.
func TestUninstallKeepsTheUserOfOthers(t *testing.T) {
	t.Parallel()
	for _, held := range []string{"the keys", "older keys", "nothing"} {
		t.Run(held, func(t *testing.T) { t.Parallel(); uninstallKeepsTheUserOfOthers(t, held) })
	}
}

func uninstallKeepsTheUserOfOthers(t *testing.T, held string) {
	t.Helper()
	cloud := testenv.NewCloud(t, nil)
	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "backup", Name: "keys"},
		Data:       map[string][]byte{"cloud-config": cloud.Config(t, "").Render()},
	}

	e := newEnv(t, copied)
	hasKeys(t, e, cloud)
	e.Kube.PrependReactor("create", "selfsubjectaccessreviews", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}, nil
	})

	admin := cloud.Admin(t)
	config := cloud.Config(t, "")
	users, err := admin.ListUsers(t.Context(), "")
	require.NoError(t, err)
	for _, u := range users {
		if u.APIKey == config.APIKey {
			made := []*credentials.CreatedObject{
				{
					Kind:     credentials.CreatedUser,
					Name:     u.Username,
					ID:       u.ID,
					Account:  u.Account,
					DomainID: u.DomainID,
					Domain:   u.Domain,
				},
			}
			require.NoError(t, credentials.Recorded(t.Context(), e.Cluster, config, made, func() error { return nil }))
		}
	}

	o := Options{
		DeleteUser: true,
		Admin: func(context.Context, *engine.Env, *cloudstack.Config) (*cloudapi.Client, func(), error) {
			return admin, func() {}, nil
		},
	}

	secrets := e.Kube.CoreV1().Secrets(testenv.Namespace)
	switch held {
	case "older keys":
		config.APIKey = "older"
		own := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: access.SecretName},
			Data:       map[string][]byte{access.SecretKey: config.Render()},
		}
		_, err = secrets.Update(t.Context(), own, metav1.UpdateOptions{})
	case "nothing":
		err = secrets.Delete(t.Context(), access.SecretName, metav1.DeleteOptions{})
	}
	require.NoError(t, err)

	err = Run(t.Context(), e.Env, o)
	testenv.RequireRefusal(t, err, "others use these credentials: Secret backup/keys",
		"leave out --delete-secret and --delete-user", report.ExitCheckFailed)
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
	owner := hasKeys(t, e, cloud)
	ctx, cancel := context.WithCancel(t.Context())
	e.Releases.Changed = func(context.Context, *helm.Release) error { cancel(); return nil }
	require.ErrorIs(t, Run(ctx, e.Env, Options{}), context.Canceled)
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

// A controller from a manifest or GitOps is refused with a remedy, not reported as nothing to remove.
func TestUninstallOfAManifest(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.Deployment(1))
	e.Releases.Kept = nil
	err := Run(t.Context(), e.Env, Options{DeleteSecret: true})
	testenv.RequireRefusal(t, err, "nothing was changed: Deployment kube-system/",
		"csccm template | kubectl delete -f -", report.ExitCheckFailed)
	require.NotNil(t, e.Secret(t, access.SecretName))
}
