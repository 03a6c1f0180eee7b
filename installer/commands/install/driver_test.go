// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/uninstall"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/installer/testenv"
)

// withDriver adds the CSI driver to an install, from the chart that stands for its own.
func (e *env) withDriver(t *testing.T, o Options) Options {
	t.Helper()
	chart, digest := testenv.CSIChart(t)
	o.With = []string{WithCSI}
	o.CSI = CSIOptions{
		Load: func(context.Context) (*helm.Chart, error) { return chart, nil }, Digest: digest, Flags: []string{"--csi-chart", "csi.tgz"},
	}
	return o
}

func TestInstallDriver(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.KeepCSI(0)
	o := e.admin()
	o.Region = "north"
	o = e.withDriver(t, o)
	e.install(t, o)
	for _, want := range []string{
		"Helm release kube-system/csccm-csi of the CSI driver: revision 1, chart 0.0.1", "Waiting for the Pods of DaemonSet kube-system/cloudstack-csi-node",
		"The CSI driver 0.0.2 runs in namespace kube-system.\nNo StorageClass is of it yet", "--with csi --csi-chart csi.tgz",
	} {
		require.Contains(t, e.Said(), want)
	}
	data := e.Secret(t, credentials.SecretName)
	require.Contains(t, string(data[credentials.SecretKey]), "region = north")
	file := string(data[storage.ConfigKey])
	require.Regexp(t, `^\[Global\]\napi-url = .*\napi-key = .*\nsecret-key = .*\n$`, file, "keys that the driver does not know would end it")
	require.Contains(t, e.Releases.CSI.Release().Manifest, "- --cloudstack-config=/etc/config/csi-cloud-config")
	require.NotContains(t, e.Releases.CSI.Release().Values, "apiKey")
	e.requireNoSecrets(t)

	e.Stderr.Reset()
	e.install(t, o)
	require.Equal(t, 1, e.Releases.Applied)
	require.Equal(t, 1, e.Releases.CSI.Applied, "the second run changes nothing")
	require.Contains(t, e.Stderr.String(), "Secret kube-system/cloudstack-secret: kept")

	// New keys are in both files.
	e.onePodOf(t)
	e.rotate(t)
	data = e.Secret(t, credentials.SecretName)
	require.Contains(t, string(data[credentials.SecretKey]), "previous-record-key")
	require.NotContains(t, string(data[storage.ConfigKey]), "previous-record-key")
	require.NotEqual(t, file, string(data[storage.ConfigKey]))
	require.True(t, bytes.HasPrefix(data[credentials.SecretKey], data[storage.ConfigKey]), "the same keys")
}

// onePodOf makes the controller's Pod.
func (e *env) onePodOf(t *testing.T) {
	t.Helper()
	require.NoError(t, e.Kube.Tracker().Add(testenv.ReadyPod("ccm-0")))
}

// The Secret that is there gets the driver's cloud-config without a question: nothing in it is lost.
func TestInstallDriverLater(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.KeepCSI(0)
	e.install(t, e.keys(t))
	was := e.Secret(t, credentials.SecretName)
	e.install(t, e.withDriver(t, Options{}))
	now := e.Secret(t, credentials.SecretName)
	require.Equal(t, was[credentials.SecretKey], now[credentials.SecretKey])
	require.NotEmpty(t, now[storage.ConfigKey])
	require.Contains(t, e.Said(), "Secret kube-system/cloudstack-secret: has the CSI driver's cloud-config now")

	run := func(o uninstall.Options) error { return uninstall.Run(t.Context(), e.Env.Env, o) }
	e.Stdout.Reset()
	e.DryRun = true
	require.NoError(t, run(uninstall.Options{}))
	require.Contains(t, e.Stdout.String(), "stays   Helm release kube-system/csccm-csi of the CSI driver, chart 0.0.1 (--with csi removes it)")
	require.NoError(t, run(uninstall.Options{DeleteSecret: true}))
	require.Contains(t, e.Stdout.String(), "the CSI driver stays and reads Secret kube-system/cloudstack-secret")
	e.DryRun = false
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: storage.DriverName}
	require.NoError(t, e.Kube.Tracker().Add(volume))
	testenv.RequireRefusal(t, run(uninstall.Options{CSI: true}), "nothing was changed: there are 1 volume of the CSI driver", "--orphan-volumes", report.ExitCheckFailed)
	require.Len(t, e.Releases.CSI.Kept, 1)
	require.ErrorContains(t, run(uninstall.Options{OrphanVolumes: true}), "--orphan-volumes is for")
	e.onePodOf(t)
	require.NoError(t, run(uninstall.Options{CSI: true, OrphanVolumes: true}), e.Stderr.String())
	require.Empty(t, e.Releases.CSI.Kept)
	require.Empty(t, e.Releases.Kept)
	require.Contains(t, e.Stdout.String(), "delete  Helm release kube-system/csccm-csi of the CSI driver, chart 0.0.1")
	require.NotContains(t, e.Secret(t, credentials.SecretName), storage.ConfigKey)
}

// A chart with other content is refused before anything is made, in CloudStack too.
func TestInstallDriverOfOtherContent(t *testing.T) {
	t.Parallel()
	for _, dry := range []bool{true, false} {
		e := newEnv(t)
		e.DryRun = dry
		o := e.withDriver(t, e.admin())
		is := o.CSI.Digest
		o.CSI.Digest = storage.Pinned.Digest
		testenv.RequireRefusal(t, e.installer(t, o).Run(t.Context()), "its digest is "+is+", expected is "+storage.Pinned.Digest, "--csi-chart-digest "+is, report.ExitCheckFailed)
		require.Zero(t, e.Releases.Applied)
		require.Zero(t, e.cloud.Ledger().Count("createUser", "registerUserKeys"))
		require.Nil(t, e.Secret(t, credentials.SecretName))
	}
}

// A driver of somebody else is left as it is, and no chart is loaded.
func TestInstallLeavesAnotherDriver(t *testing.T) {
	t.Parallel()
	for owner, annotations := range map[string]map[string]string{
		"no Helm release":                         nil,
		"Helm release kube-system/cloudstack-csi": {"meta.helm.sh/release-name": "cloudstack-csi", "meta.helm.sh/release-namespace": "kube-system"},
		"Helm release other/csccm-csi":            {"meta.helm.sh/release-name": "csccm-csi", "meta.helm.sh/release-namespace": "other"},
	} {
		e := newEnv(t)
		require.NoError(t, e.Kube.Tracker().Add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: storage.DriverName, Annotations: annotations}}))
		o := e.withDriver(t, e.admin())
		o.CSI.Load = nil
		in := e.install(t, o)
		require.Contains(t, e.Stderr.String(), "the CSI driver is left as it is: CSIDriver csi.cloudstack.apache.org belongs to "+owner+"\n")
		require.NotContains(t, e.Secret(t, credentials.SecretName), storage.ConfigKey)
		require.NotContains(t, e.Stdout.String(), "The CSI driver")
		e.Stdout.Reset()
		require.NoError(t, in.printText(&e.Stdout))
		require.Contains(t, e.Stdout.String(), "  CSI driver  left as it is")
	}
}

func TestInstallDriverDryRun(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Yes, e.DryRun, e.Output = false, true, "json"
	e.install(t, e.withDriver(t, e.admin()))
	var p struct{ Driver map[string]any }
	require.NoError(t, json.Unmarshal(e.Stdout.Bytes(), &p))
	require.Equal(t, "install", p.Driver["action"])
	require.Equal(t, "csccm-csi", p.Driver["release"])
	require.Contains(t, p.Driver["digest"], "sha256:")
	require.Zero(t, e.Releases.CSI.Applied)
	require.Nil(t, e.Secret(t, credentials.SecretName))
}

// A driver whose Pods do not become ready ends the install with what to do, and the next run goes on with it.
func TestInstallDriverNotReady(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.KeepCSI(2)
	o := e.withDriver(t, e.admin())
	testenv.RequireRefusal(t, e.installer(t, o).Run(t.Context()), "DaemonSet kube-system/cloudstack-csi-node did not come up within 5m0s: 3 of 3 Pods updated, 1 available",
		"run the command again: it continues here", report.ExitTimeout)
	d, err := e.Kube.AppsV1().DaemonSets(testenv.Namespace).Get(t.Context(), "cloudstack-csi-node", metav1.GetOptions{})
	require.NoError(t, err)
	d.Status.NumberAvailable = 3
	_, err = e.Kube.AppsV1().DaemonSets(testenv.Namespace).Update(t.Context(), d, metav1.UpdateOptions{})
	require.NoError(t, err)
	e.install(t, o)
	require.Equal(t, 1, e.Releases.CSI.Applied)
}

// ^C ends the step in progress; the journal has it, the error says both ways on, and the next run goes on.
func TestInstallDriverStopped(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.KeepCSI(0)
	ctx, stop := context.WithCancel(t.Context())
	made := e.Releases.CSI.Changed
	e.Releases.CSI.Changed = func(ctx context.Context, r *helm.Release) error {
		stop()
		return made(context.WithoutCancel(ctx), r)
	}
	o := e.withDriver(t, e.admin())
	testenv.RequireRefusal(t, e.installer(t, o).Run(ctx), `stopped before the end of step "rollout of the CSI driver"`,
		"run the same command again: it continues where it stopped; csccm uninstall --with csi takes the controller and the CSI driver away again", report.ExitFailure)
	journal, err := os.ReadFile(e.Journal)
	require.NoError(t, err)
	require.Contains(t, string(journal), `"step":"Helm release of the CSI driver","detail":["release csccm-csi, revision 1, chart 0.0.1"]`)
	e.install(t, o)
	require.Equal(t, 1, e.Releases.CSI.Applied)
}

func TestKubeletDir(t *testing.T) {
	t.Parallel()
	at := func(dirs ...string) (list []kubelet.NodeVerdict) {
		for i, dir := range dirs {
			list = append(list, kubelet.NodeVerdict{Node: string(rune('a' + i)), RootDir: dir})
		}
		return list
	}
	for name, c := range map[string]struct {
		kubelets []kubelet.NodeVerdict
		d        cluster.Distribution
		want     string
		err      string
	}{
		"no flags":     {at("", ""), cluster.Kubeadm, "", ""},
		"k0s":          {at(""), cluster.K0s, "/var/lib/k0s/kubelet", ""},
		"said by some": {at("", "/data/kubelet"), cluster.K0s, "/data/kubelet", ""},
		"different":    {at("/b", "/a", "/b"), cluster.Kubeadm, "", "kubelets have different folders (/a on node b, /b on node a)"},
	} {
		got, err := kubeletDir(c.kubelets, c.d)
		require.Equal(t, c.want, got, name)
		if c.err != "" {
			testenv.RequireRefusal(t, err, c.err, "--csi-set node.kubeletPath", report.ExitCheckFailed)
		} else {
			require.NoError(t, err, name)
		}
	}
}

// TestPinnedChart compares the chart that the variable names with the pinned one: the published archive, or the folder of
// the chart in the driver's Git repository at the pinned tag.
func TestPinnedChart(t *testing.T) {
	t.Parallel()
	ref := os.Getenv("CSCCM_CSI_CHART")
	if ref == "" {
		t.Skip("CSCCM_CSI_CHART names no chart")
	}
	chart, err := helm.Load(ref, "")
	require.NoError(t, err)
	digest, err := chart.Digest()
	require.NoError(t, err)
	require.Equal(t, []string{storage.Pinned.Name, storage.Pinned.Version, storage.Pinned.Digest}, []string{chart.Name(), chart.Version(), digest})

	// The chart takes the values.
	for _, s := range []storage.Setting{{Secret: "s"}, {Secret: "s", ControlNode: true, KubeletDir: "/k", CAConfigMap: "ca", CAKey: "ca.crt"}} {
		manifest, err := helm.Template(t.Context(), "kube-system", helm.ApplyRequest{Name: storage.Release, Chart: chart, Values: storage.Values(s), KubeVersion: testenv.KubeVersion})
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(manifest, "--cloudstack-config=/etc/config/csi-cloud-config\n"))
		require.Equal(t, 2, strings.Count(manifest, "secretName: s\n"))
		require.NotEqual(t, s.ControlNode, strings.Contains(manifest, "key: "+corev1.LabelOSStable+"\n"))
		require.Equal(t, s.CAConfigMap != "", strings.Contains(manifest, "SSL_CERT_FILE"))
		require.NotContains(t, manifest, "kind: Secret\n")
		require.NotContains(t, manifest, "kind: Job\n")
	}
}
