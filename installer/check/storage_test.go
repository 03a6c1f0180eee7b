// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// storage adds the CSI driver as its chart installs it, registered on every node, with the controller's Secret and a
// StorageClass.
func (w *world) storage(t *testing.T) {
	t.Helper()
	client, err := cloudstack.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	w.add(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: storage.DriverName}})
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "driver", Image: "mirror.example.org/csi/cloudstack-csi-driver:3.0.0@sha256:0",
			Args: []string{"--cloudstack-config=$(CLOUD_CONFIG)", "--cloudstack-config=/etc/config/" + storage.ConfigKey},
		}},
		Volumes: []corev1.Volume{{Name: "cloud-config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cloudstack-secret"}}}},
	}}
	two := int32(2)
	w.add(t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "csi-controller"},
		Spec:       appsv1.DeploymentSpec{Replicas: &two, Template: template}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
	})
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "csi-node"}, Spec: appsv1.DaemonSetSpec{Template: template}}
	ds.Status.DesiredNumberScheduled, ds.Status.NumberReady = int32(len(vms)), int32(len(vms))
	w.add(t, ds)
	w.add(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloudstack-secret"}, Data: map[string][]byte{
		"cloud-config": w.env.CloudConfig.Render(), storage.ConfigKey: storage.CloudConfig(w.env.CloudConfig),
	}})
	for _, vm := range vms {
		w.changeNode(t, vm.Name, func(n *corev1.Node) { n.Labels[storage.ZoneKey] = vm.ZoneID })
		w.add(t, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: vm.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "other.example.org", NodeID: vm.Name}, {Name: storage.DriverName, NodeID: vm.ID, TopologyKeys: []string{storage.ZoneKey}},
		}}})
	}
	w.class(t, "Custom")
}

// class adds a StorageClass of a disk offering.
func (w *world) class(t *testing.T, offering string) {
	t.Helper()
	client, err := cloudstack.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	offerings, err := client.ListDiskOfferings(t.Context())
	require.NoError(t, err)
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "of-" + offering}, Provisioner: storage.DriverName, Parameters: map[string]string{}}
	for _, o := range offerings {
		if o.Name == offering {
			c.Parameters[storage.DiskOfferingKey] = o.ID
		}
	}
	w.add(t, c)
}

// volume adds a PersistentVolume of the driver.
func (w *world) volume(t *testing.T, name, id string, zones ...string) {
	t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: storage.DriverName, VolumeHandle: id}
	if len(zones) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: storage.ZoneKey, Operator: corev1.NodeSelectorOpIn, Values: zones}},
		}}}}
	}
	w.add(t, v)
}

func attachment(name, node, volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	a.Spec.Attacher, a.Spec.NodeName, a.Spec.Source.PersistentVolumeName = storage.DriverName, node, &volume
	return a
}

// disk has CloudStack make a VM with a data disk, and returns the disk's id.
func (w *world) disk(t *testing.T, vm string) string {
	t.Helper()
	client, err := cloudstack.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{Name: "demo-worker-1"})
	require.NoError(t, err)
	offerings, err := client.ListDiskOfferings(t.Context())
	require.NoError(t, err)
	services, err := client.ListServiceOfferings(t.Context(), "")
	require.NoError(t, err)
	raw := httptest.NewRecorder()
	w.sim.IntegrationHandler().ServeHTTP(raw, httptest.NewRequest(http.MethodGet, "/client/api?command=listVirtualMachines&listall=true&response=json&id="+vms[0].ID, nil))
	template := regexp.MustCompile(`"templateid":"([^"]+)"`).FindStringSubmatch(raw.Body.String())
	require.Len(t, template, 2, raw.Body)
	w.order(t, "deployVirtualMachine", url.Values{
		"name": {vm}, "zoneid": {vms[0].ZoneID}, "templateid": {template[1]}, "serviceofferingid": {services[0].ID}, "diskofferingid": {offerings[0].ID},
		"networkids": {vms[0].NICs[0].NetworkID}, "account": {vms[0].Account}, "domainid": {vms[0].DomainID},
	})
	disks, err := client.ListDataVolumes(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, disks, 1)
	return disks[0].ID
}

// withoutCommand is a CloudStack whose role lacks a command.
type withoutCommand struct {
	check.API
	command string
}

func (c withoutCommand) ListAPIs(ctx context.Context) (map[string]cloudstack.API, error) {
	apis, err := c.API.ListAPIs(ctx)
	delete(apis, c.command)
	return apis, err
}

// storageFaults are those of volumes, each with its remedy in storageRemedies.
func storageFaults() []fault {
	return []fault{
		{code: "STOR-001", outcome: check.Failed, says: "csi-controller: 1 of 2 Pods ready", together: true, inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.controllerReady(t, 1)
		}},
		{code: "STOR-001", outcome: check.Failed, says: "Node demo-worker-1: the driver is not registered in its CSINode", inject: func(t *testing.T, w *world) {
			w.storage(t)
			require.NoError(t, w.kube.StorageV1().CSINodes().Delete(t.Context(), "demo-worker-1", metav1.DeleteOptions{}))
		}},
		{code: "STOR-001", outcome: check.Failed, says: "no Deployment of its controller exists", inject: func(t *testing.T, w *world) { w.class(t, "Custom") }},
		{code: "STOR-002", outcome: check.Failed, says: `Node demo-worker-1: its label topology.csi.cloudstack.apache.org/zone is "old"`, inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.changeNode(t, "demo-worker-1", func(n *corev1.Node) { n.Labels[storage.ZoneKey] = "old" })
		}},
		{code: "STOR-002", outcome: check.Failed, says: "Node demo-worker-2: its CSINode says VM another", inject: func(t *testing.T, w *world) {
			w.storage(t)
			n, err := w.kube.StorageV1().CSINodes().Get(t.Context(), "demo-worker-2", metav1.GetOptions{})
			require.NoError(t, err)
			n.Spec.Drivers[1].NodeID = "another"
			_, err = w.kube.StorageV1().CSINodes().Update(t.Context(), n, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		{code: "STOR-002", outcome: check.Failed, says: "PersistentVolume data: is of zone gone, where no node is", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.volume(t, "data", "v", "gone")
		}},
		{code: "STOR-003", outcome: check.Failed, says: "StorageClass of-None: has no parameter", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.class(t, "None")
		}},
		{code: "STOR-003", outcome: check.Failed, says: "its disk offering Small has a fixed size (5 GiB)", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.class(t, "Small")
		}},
		{code: "STOR-003", outcome: check.Failed, says: "its disk offering gone does not exist", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.add(t, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Provisioner: storage.DriverName, Parameters: map[string]string{storage.DiskOfferingKey: "gone"}})
		}},
		{code: "STOR-004", outcome: check.Failed, says: "the role lacks 1 command: attachVolume", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.env.CloudStack = withoutCommand{w.env.CloudStack, "attachVolume"}
		}},
		{code: "STOR-004", outcome: check.Failed, says: "Secret kube-system/cloudstack-secret, which the driver needs, does not exist", inject: func(t *testing.T, w *world) {
			w.storage(t)
			require.NoError(t, w.kube.CoreV1().Secrets(system).Delete(t.Context(), "cloudstack-secret", metav1.DeleteOptions{}))
		}},
		{code: "STOR-004", outcome: check.Failed, says: "CloudStack does not accept the keys of the driver", inject: func(t *testing.T, w *world) {
			w.storage(t)
			cfg := *w.env.CloudConfig
			cfg.SecretKey = "old"
			w.driverFile(t, storage.CloudConfig(&cfg))
		}},
		{code: "STOR-004", outcome: check.Failed, says: "its cloud-config has keys that it does not know: region, rate-limit", inject: func(t *testing.T, w *world) {
			w.storage(t)
			cfg := *w.env.CloudConfig
			cfg.Region = "north"
			w.driverFile(t, cfg.Render())
		}},
		{code: "STOR-005", outcome: check.Warning, says: "VolumeAttachment csi-1: holds PersistentVolume data for Node lost, which is gone", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.volume(t, "data", "v")
			w.add(t, attachment("csi-1", "lost", "data"))
		}},
		{code: "STOR-005", outcome: check.Warning, says: "is attached to VM lost (Running), which is no node", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.volume(t, "data", w.disk(t, "lost"))
		}},
	}
}

func (w *world) controllerReady(t *testing.T, ready int32) {
	t.Helper()
	d, err := w.kube.AppsV1().Deployments(system).Get(t.Context(), "csi-controller", metav1.GetOptions{})
	require.NoError(t, err)
	d.Status.ReadyReplicas = ready
	_, err = w.kube.AppsV1().Deployments(system).UpdateStatus(t.Context(), d, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// driverFile gives the driver another cloud-config.
func (w *world) driverFile(t *testing.T, file []byte) {
	t.Helper()
	s, err := w.kube.CoreV1().Secrets(system).Get(t.Context(), "cloudstack-secret", metav1.GetOptions{})
	require.NoError(t, err)
	s.Data[storage.ConfigKey] = file
	_, err = w.kube.CoreV1().Secrets(system).Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// Each fault of storage is gone when its remedy has been followed.
func TestStorageFaultsAreRemedied(t *testing.T) {
	t.Parallel()
	remedies := map[string]func(t *testing.T, w *world){
		"csi-controller: 1 of 2 Pods ready": func(t *testing.T, w *world) { w.controllerReady(t, 2) },
		`Node demo-worker-1: its label topology.csi.cloudstack.apache.org/zone is "old"`: func(t *testing.T, w *world) {
			vm, err := w.env.CloudStack.ListVirtualMachines(t.Context(), cloudstack.VMQuery{Name: "demo-worker-1"})
			require.NoError(t, err)
			w.changeNode(t, "demo-worker-1", func(n *corev1.Node) { n.Labels[storage.ZoneKey] = vm[0].ZoneID })
		},
		"its disk offering Small has a fixed size (5 GiB)": func(t *testing.T, w *world) {
			require.NoError(t, w.kube.StorageV1().StorageClasses().Delete(t.Context(), "of-Small", metav1.DeleteOptions{}))
		},
		"its cloud-config has keys that it does not know: region, rate-limit": func(t *testing.T, w *world) {
			w.driverFile(t, storage.CloudConfig(w.env.CloudConfig))
		},
		"the role lacks 1 command: attachVolume": func(_ *testing.T, w *world) { w.env.CloudStack = w.env.CloudStack.(withoutCommand).API },
		"VolumeAttachment csi-1: holds PersistentVolume data for Node lost, which is gone": func(t *testing.T, w *world) {
			require.NoError(t, w.kube.StorageV1().VolumeAttachments().Delete(t.Context(), "csi-1", metav1.DeleteOptions{}))
		},
	}
	tried := 0
	for _, f := range storageFaults() {
		remedy := remedies[f.says]
		if remedy == nil {
			continue
		}
		tried++
		t.Run(f.name(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f.inject(t, w)
			require.Equal(t, f.outcome, w.result(t, f.code).Outcome)
			remedy(t, w)
			r := w.result(t, f.code)
			require.Equal(t, check.OK, r.Outcome, "%+v", r)
		})
	}
	require.Len(t, remedies, tried)
}

// A cluster without the driver costs no call to CloudStack and is told in one line; with the driver its disk offerings and
// volumes are one list each, and the commands of keys of its own one more.
func TestBudgetOfStorage(t *testing.T) {
	t.Parallel()
	volumes := func(t *testing.T, w *world) {
		for i := range 30 {
			w.volume(t, fmt.Sprintf("data-%d", i), fmt.Sprint(i))
			w.add(t, attachment(fmt.Sprintf("csi-%d", i), "demo-worker-1", fmt.Sprintf("data-%d", i)))
		}
	}
	for name, c := range map[string]struct {
		storage                 func(t *testing.T, w *world)
		apis, offerings, volume int
		outcome                 check.Outcome
	}{
		"no driver":      {storage: func(*testing.T, *world) {}, apis: 1, outcome: check.Skipped},
		"without volume": {storage: func(t *testing.T, w *world) { w.storage(t) }, apis: 1, offerings: 1, outcome: check.OK},
		"with volumes":   {storage: func(t *testing.T, w *world) { w.storage(t); volumes(t, w) }, apis: 1, offerings: 1, volume: 1, outcome: check.OK},
		"keys of its own": {storage: func(t *testing.T, w *world) {
			w.storage(t)
			volumes(t, w)
			cfg := *w.env.CloudConfig
			cfg.APIKey, cfg.SecretKey, _ = w.sim.Keys("admin")
			w.driverFile(t, storage.CloudConfig(&cfg))
		}, apis: 2, offerings: 1, volume: 1, outcome: check.OK},
		"a Secret that may not be read": {storage: func(t *testing.T, w *world) {
			w.storage(t)
			w.kube.PrependReactor("get", "secrets", func(a ktesting.Action) (bool, runtime.Object, error) {
				name := a.(ktesting.GetAction).GetName()
				return name == "cloudstack-secret", nil, apierrors.NewForbidden(corev1.Resource("secrets"), name, nil)
			})
		}, apis: 1, offerings: 1, outcome: check.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.storage(t, w)
			cloud, _, _, r := w.counted(t, check.Selection{})
			require.Equal(t, []int{c.apis, c.offerings, c.volume}, []int{cloud["listApis"], cloud["listDiskOfferings"], cloud["listVolumes"]})
			total := 0
			for _, n := range cloud {
				total += n
			}
			require.Equal(t, 9+c.apis+c.offerings+c.volume, total, cloud)
			for code, c2 := range byCode(r) {
				if c2.Category == "Storage" {
					require.Equal(t, c.outcome, c2.Outcome, "%s %+v", code, c2)
				}
			}
			noKeys(t, w, r)
			var b strings.Builder
			require.NoError(t, r.WriteText(&b, check.TextOptions{}))
			text := b.String()
			if c.outcome == check.Skipped {
				require.Contains(t, text, "STOR-001 CSI driver for CloudStack: not used")
				require.NotContains(t, text, "STOR-002")
			} else {
				require.Contains(t, text, "STOR-005")
			}
		})
	}
}

// Volumes of several zones are created for the zone of the Pod.
func TestStorageClassOfSeveralZones(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.storage(t)
	n := w.node("elsewhere", "10.2.0.1")
	n.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Hour))
	n.Labels[storage.ZoneKey] = "another zone"
	w.add(t, n)
	r := w.result(t, "STOR-003")
	require.Equal(t, check.Failed, r.Outcome)
	require.Contains(t, r.Objects[0].Message, "volumeBindingMode is Immediate and the nodes are in 2 zones")
}
