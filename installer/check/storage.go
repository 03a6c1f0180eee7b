// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/cloudstack/ini"
)

// Names in the CSI driver for CloudStack (github.com/cloudstack/cloudstack-csi-driver), version 3.0.
const (
	// DriverName is the name of the CSIDriver object, and the provisioner of its StorageClasses.
	DriverName = "csi.cloudstack.apache.org"
	// ZoneKey is the topology key whose value is the id of a node's zone in CloudStack.
	ZoneKey = "topology." + DriverName + "/zone"
)

// CSI has the facts about the CSI driver for CloudStack.
type CSI struct {
	There bool // the CSIDriver object exists
	// File is the driver's cloud-config, of the Secret that its Deployment mounts; NoFile says why it is not there.
	File, NoFile string
	Nodes        []storagev1.CSINode
}

// ofDriver reports whether a workload is the driver's controller, by the name of the image, which mirroring does not
// change, or by the name in the driver's chart and manifests.
func (w *Workload) ofDriver() bool {
	return w.Kind == "Deployment" &&
		(w.Name == "cloudstack-csi-controller" || slices.ContainsFunc(w.Images, func(image string) bool {
			repository, _, _ := strings.Cut(path.Base(strings.Split(image, "@")[0]), ":")
			return repository == "cloudstack-csi-driver"
		}))
}

// UsesDriver reports whether the cluster has the driver, or anything that needs it.
func (f *Facts) UsesDriver() bool { return f.Driver.There || len(f.CSI)+len(f.driverVolumes()) > 0 }

func (f *Facts) driverVolumes() []corev1.PersistentVolume {
	return without(f.Volumes,
		func(v corev1.PersistentVolume) bool { return v.Spec.CSI == nil || v.Spec.CSI.Driver != DriverName })
}

// DriverSecret returns the Secret and the key from which the driver's controller gets its cloud-config; name is "" if
// it does not come from a Secret.
func (f *Facts) DriverSecret() (namespace, name, key string) {
	key = "cloud-config"
	for _, driver := range f.CSI {
		for _, v := range driver.volumes {
			if s := v.Secret; s != nil && name == "" {
				namespace, name = driver.Namespace, s.SecretName
			}
		}
		for _, word := range driver.words { // if a flag is repeated, the last one counts
			if file, ok := strings.CutPrefix(word, "--cloudstack-config="); ok && !strings.Contains(file, "$(") {
				key = path.Base(file)
			}
		}
	}
	return namespace, name, key
}

// driverConfigKeys are the keys of a cloud-config that the driver knows. It exits at startup when it finds another one.
var driverConfigKeys = []string{"api-url", "api-key", "secret-key", "project-id", "ssl-no-verify", "zone"}

// ofStorage returns a judge function that skips clusters without the driver.
func ofStorage(judge func(*Facts) Finding) func(*Facts) Finding {
	return func(f *Facts) Finding {
		if !f.UsesDriver() {
			return Skipf("not used: no CSIDriver, Deployment or volume is of %s", DriverName)
		}
		return judge(f)
	}
}

var stor001 = Check{
	Code:  "STOR-001",
	Title: "CSI driver and controller can read their keys",
	Phase: PhaseInstalled,
	Reads: Sources{Controllers, Volumes, Driver},
	Judge: ofStorage(driverKeys),
	What: `The Secret of the CSI driver for CloudStack exists, and its cloud-config has only keys that the driver
		knows. Only for clusters with the driver.`,
	Why: `The driver exits at startup when it finds an unknown key, and then no volume can be created, attached or
		mounted. The controller's cloud-config has such keys, for example region.`,
	Remedy: `give the driver a Secret of its own with the keys api-url, api-key, secret-key, project-id and
		ssl-no-verify only, and restart its Pods; docs/storage.md has the commands`,
}

func driverKeys(f *Facts) Finding {
	namespace, name, _ := f.DriverSecret()
	switch {
	case name == "":
		return Skipf("the CSI driver reads its keys from no Secret")
	case f.Driver.NoFile != "":
		return Problemf("Secret %s/%s, which the CSI driver needs, %s", namespace, name, f.Driver.NoFile)
	}

	var unknown []string
	for _, l := range ini.Scan(f.Driver.File) {
		if key := strings.ToLower(l.Name); (l.Kind == ini.Key || l.Kind == ini.Bare) &&
			!slices.Contains(driverConfigKeys, key) {
			unknown = append(unknown, key)
		}
	}

	if len(unknown) > 0 {
		return Problemf("the CSI driver exits at startup: its cloud-config has keys that it does not know: %s",
			listed(unknown))
	}

	if _, err := cloudconfig.Parse(strings.NewReader(f.Driver.File)); err != nil {
		return Problemf("Secret %s/%s, which the CSI driver needs, has no cloud-config that can be read: %v",
			namespace, name, err)
	}

	return Passf("the CSI driver can read its cloud-config, of Secret %s/%s", namespace, name)
}

var stor002 = Check{
	Code:  "STOR-002",
	Title: "CSI topology as in CloudStack",
	Phase: PhaseInstalled,
	Reads: Sources{Controllers, Volumes, Driver, Nodes, VMs},
	Judge: ofStorage(driverTopology),
	What: `The CSINode of each node names the node's VM, and the node's label
		topology.csi.cloudstack.apache.org/zone is the id of the VM's zone. NODE-007 judges the volumes.`,
	Why: `The driver attaches a volume to the VM that the CSINode names, and the scheduler places Pods by the
		label.`,
	Remedy: `of each named node remove the label (kubectl label node NODE topology.csi.cloudstack.apache.org/zone-)
		and delete the driver's Pod on it: it registers the node again`,
}

func driverTopology(f *Facts) Finding {
	registered := map[string]storagev1.CSINodeDriver{}
	for _, n := range f.Driver.Nodes {
		for _, d := range n.Spec.Drivers {
			if d.Name == DriverName {
				registered[n.Name] = d
			}
		}
	}

	objects := about("Node", f.Nodes, func(n *corev1.Node) string {
		vm, ok := f.VM(n)
		entry, runs := registered[n.Name]
		if !runs || !ok {
			return "" // the driver does not run there, or NODE-002 reports the node
		}

		switch label, labelled := n.Labels[ZoneKey]; {
		case entry.NodeID != vm.ID:
			return fmt.Sprintf("its CSINode says VM %s, the node is VM %s (%s): volumes are attached to the wrong VM",
				entry.NodeID, vm.Name, vm.ID)
		case !slices.Contains(entry.TopologyKeys, ZoneKey):
			return "its CSINode lacks the topology key " + ZoneKey
		case !labelled || label != vm.ZoneID:
			return fmt.Sprintf("its label %s is %q, its zone %s is %s", ZoneKey, label, vm.ZoneName, vm.ZoneID)
		}
		return ""
	})

	return Passf("%s", count(len(registered), "node")).
		Unless(objects, "node", "%s with another zone or VM than CloudStack's").
		Fix("let the driver register again: `kubectl label node %s %s-`, then delete the driver's Pods on them "+
			"(kubectl get pods -A -o wide shows which)", namesOf(objects), ZoneKey)
}
