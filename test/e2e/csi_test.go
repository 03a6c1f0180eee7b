// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/helm"
	csi "github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/plane"
)

// csiChartDir has the chart that stands for that of the CSI driver; its image is a program that reads the keys once.
const (
	csiChartDir = "../../installer/testenv/testdata/csi-chart"
	csiImage    = "registry.example/csccm/cloudstack-csi-driver"
)

// TestCSIDriver installs the CSI driver with the controller: refused with other content, killed and continued, run again, with
// new keys, beside upgrades, and taken out again. The test plays the part of the kubelets that register the driver.
func TestCSIDriver(t *testing.T) {
	t.Parallel()
	e := newReaderEnv(t, borrow(t, plane.Options{NodeGrace: defaultGrace}), csiImage)
	e.join(t, cp1, joined(worker1))
	chart, err := helm.Load(csiChartDir, "")
	if err != nil {
		t.Fatal(err)
	}
	digest, err1 := chart.Digest()
	name, archive, err2 := chart.Archive()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/"+name {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(archive)
	}))
	t.Cleanup(server.Close)
	with := []string{"--with", "csi", "--csi-chart", server.URL + "/" + name}
	install := installArgs(e, append([]string{"--set", "replicaCount=1"}, with...)...)

	// Other content than the pinned one.
	e.csccm(t, adminPassword+"\n", install...).want(t, 3, "its digest is "+digest+", expected is "+csi.Pinned.Digest, "--csi-chart-digest "+digest)
	if n := e.cloud.Ledger().Count("createUser"); n != 0 || e.hasDriver(t) || e.csiConfig(t) != "" {
		t.Fatalf("something was made: %d users", n)
	}

	pinned := []string{"--csi-chart-digest", digest}
	with, install = append(with, pinned...), append(install, pinned...)
	e.csccm(t, adminPassword+"\n", append(install, "--dry-run=server")...).want(t, 0, "CSI driver install release kube-system/csccm-csi: chart "+server.URL, "create CSIDriver csi.cloudstack.apache.org")
	if e.hasDriver(t) {
		t.Fatal("the dry run made the driver")
	}
	e.registerDriver(t)
	e.killedInTurn(t, 2, adminPassword+"\n", []string{"Helm release kube-system/csccm-csi", "Waiting for the Pods of DaemonSet kube-system/cloudstack-csi-node"}, install)
	e.csccm(t, adminPassword+"\n", install...).want(t, 0, "The CSI driver 0.0.2 runs in namespace kube-system.", "No StorageClass is of it yet")
	e.csccm(t, "", "doctor", "--only", "STOR").want(t, 0, "✓ STOR-001", "✓ STOR-002", "✓ STOR-004")
	e.csccm(t, "", "status").want(t, 0)

	// Again.
	again := append(append([]string{"install", "--yes"}, processFlags...), with...)
	before := e.revisions(t)
	e.csccm(t, "", append(again, "--dry-run=server")...).want(t, 0, "keep release kube-system/csccm-csi", "keep kube-system/cloudstack-secret")
	e.csccm(t, "", again...).want(t, 0)
	if after := e.revisions(t); !slices.Equal(before, after) {
		t.Errorf("revisions were %v and are %v", before, after)
	}

	// New keys are in the driver's file too, and its Pods are restarted as others are.
	was, file := e.inUse(t), e.csiConfig(t)
	e.csccm(t, adminPassword+"\n", "rotate-keys", "--admin-user", "admin", "--admin-password-stdin", "--observe", "3s", "--restart-others", "--yes").
		want(t, 0, "DaemonSet kube-system/cloudstack-csi-node", "Deployment kube-system/cloudstack-csi-controller")
	if now := e.csiConfig(t); now == file || now != string(csi.CloudConfig(e.inUse(t))) {
		t.Error("the driver's file has not the new keys")
	}
	e.answers(t, was, false)
	e.csccm(t, "", "doctor", "--only", "STOR").want(t, 0, "✓ STOR-001", "✓ STOR-004")

	before = e.revisions(t)
	e.csccm(t, "", "upgrade", "--set", "logVerbosity=4", "--yes").want(t, 0, "the CSI driver stays at chart 0.0.1; csccm install --with csi brings it to "+csi.Pinned.Version)
	e.csccm(t, "", "rollback", "--yes").want(t, 0)
	if after := e.revisions(t); after[1] != before[1] {
		t.Errorf("revisions were %v and are %v", before, after)
	}

	e.csccm(t, "", "uninstall", "--yes").want(t, 0, "stays Helm release kube-system/csccm-csi of the CSI driver, chart 0.0.1 (--with csi removes it)")
	if !e.hasDriver(t) || e.csiConfig(t) == "" {
		t.Fatal("the driver is gone")
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: csi.DriverName, VolumeHandle: "disk"}},
	}}
	if _, err := e.Client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	remove := []string{"uninstall", "--with", "csi", "--yes"}
	e.csccm(t, "", remove...).want(t, 3, "nothing was changed: there are 1 volume of the CSI driver", "--orphan-volumes")
	e.csccm(t, "", append(remove, "--orphan-volumes")...).want(t, 0, "delete Helm release kube-system/csccm-csi")
	if e.hasDriver(t) || e.csiConfig(t) != "" {
		t.Fatal("the driver is still there")
	}

	// A driver of somebody else.
	foreign := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csi.DriverName}}
	if _, err := e.Client.StorageV1().CSIDrivers().Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.csccm(t, "", append(again, "--dry-run=client")...).want(t, 0, "the CSI driver is left as it is: CSIDriver csi.cloudstack.apache.org belongs to no Helm release")
	e.noSecrets(t)
}

func (e *clusterEnv) hasDriver(t *testing.T) bool {
	t.Helper()
	_, err := e.Client.StorageV1().CSIDrivers().Get(t.Context(), csi.DriverName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// csiConfig is the driver's cloud-config in the Secret; "" if there is none.
func (e *clusterEnv) csiConfig(t *testing.T) string {
	t.Helper()
	s, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return string(s.Data[csi.ConfigKey])
}

// revisions are those of the controller's release and of the driver's.
func (e *clusterEnv) revisions(t *testing.T) (out []int) {
	t.Helper()
	for _, name := range []string{release, csi.Release} {
		r, err := e.helm.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Revision)
	}
	return out
}

// registerDriver does, until the end of the test, what a kubelet does when the driver's Pod on its node is ready: it writes
// the node's VM into the CSINode and its zone into a label.
func (e *clusterEnv) registerDriver(t *testing.T) {
	t.Helper()
	vms, err := e.api(t, owner).ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; {
			if err := e.registerOnce(ctx, vms); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
				t.Logf("registering the driver: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (e *clusterEnv) registerOnce(ctx context.Context, vms []cloudstack.VirtualMachine) error {
	pods, err := e.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app=cloudstack-csi-node"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		at := slices.IndexFunc(vms, func(v cloudstack.VirtualMachine) bool { return v.Name == p.Spec.NodeName })
		if at < 0 || !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			continue
		}
		_, err := e.Client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: csi.DriverName, NodeID: vms[at].ID, TopologyKeys: []string{csi.ZoneKey}}},
		}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err == nil {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, csi.ZoneKey, vms[at].ZoneID)
			_, err = e.Client.CoreV1().Nodes().Patch(ctx, p.Spec.NodeName, "application/merge-patch+json", patch, metav1.PatchOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
