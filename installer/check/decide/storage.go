// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/cloudstack/ini"
)

// Names of the CSI driver for CloudStack (github.com/cloudstack/cloudstack-csi-driver), as its version 3.0 uses them.
const (
	// DriverName is the name of the CSIDriver object, and the provisioner of its StorageClasses.
	DriverName = "csi.cloudstack.apache.org"
	// ZoneKey is the topology key whose value is the id of a node's zone in CloudStack.
	ZoneKey = "topology." + DriverName + "/zone"
)

func storageChecks() []Check {
	return []Check{
		{
			Code: "STOR-001", Title: "CSI driver and controller can read their keys", Severity: SeverityError, Phase: Installed, Needs: needAPI, Reads: []Source{Controllers, Volumes, Driver}, Judge: driverKeys,
			What:   "The Secret of the CSI driver for CloudStack exists, and its cloud-config has only keys that the driver knows. Only for clusters with the driver.",
			Why:    "The driver exits at startup when it finds an unknown key, and then no volume can be created, attached or mounted. The controller's cloud-config has such keys, for example region.",
			Remedy: "give the driver a Secret of its own with the keys api-url, api-key, secret-key, project-id and ssl-no-verify only, and restart its Pods; docs/storage.md has the commands",
		},
		{
			Code: "STOR-002", Title: "CSI topology as in CloudStack", Severity: SeverityError, Phase: Installed, Needs: []string{"STOR-001", "CS-004"}, Reads: []Source{Controllers, Volumes, Driver, Nodes, VMs}, Judge: driverTopology,
			What:   "The CSINode of each node names the node's VM, and the node's label " + ZoneKey + " is the id of the VM's zone. NODE-007 judges the volumes.",
			Why:    "The driver attaches a volume to the VM that the CSINode names, and the scheduler places Pods by the label.",
			Remedy: "of each named node remove the label (kubectl label node NODE " + ZoneKey + "-) and delete the driver's Pod on it: it registers the node again",
		},
	}
}

// CSI is what was read of the CSI driver for CloudStack.
type CSI struct {
	There bool // the CSIDriver object
	// File is the driver's cloud-config, of the Secret that its Deployment mounts; NoFile says why it is not there.
	File, NoFile string
	Nodes        []storagev1.CSINode
}

// ofDriver reports whether a workload is the driver's controller, by the name of the image, which mirrors keep, or by the
// name in the driver's chart and manifests.
func (w *Workload) ofDriver() bool {
	return w.Kind == "Deployment" && (w.Name == "cloudstack-csi-controller" || slices.ContainsFunc(w.Images, func(image string) bool {
		repository, _, _ := strings.Cut(path.Base(strings.Split(image, "@")[0]), ":")
		return repository == "cloudstack-csi-driver"
	}))
}

// UsesDriver reports whether the cluster has the driver, or anything that needs it.
func (f *Facts) UsesDriver() bool { return f.Driver.There || len(f.CSI)+len(f.driverVolumes()) > 0 }

func (f *Facts) driverVolumes() []corev1.PersistentVolume {
	return slices.DeleteFunc(slices.Clone(f.Volumes), func(v corev1.PersistentVolume) bool { return v.Spec.CSI == nil || v.Spec.CSI.Driver != DriverName })
}

// DriverSecret returns where the driver's controller has its cloud-config from; name is "" where it is from no Secret.
func (f *Facts) DriverSecret() (namespace, name, key string) {
	key = "cloud-config"
	for i := range f.CSI {
		if name == "" {
			namespace, name = f.CSI[i].Namespace, f.CSI[i].secret
		}
		for _, word := range f.CSI[i].words { // the last counts
			if file, ok := strings.CutPrefix(word, "--cloudstack-config="); ok && !strings.Contains(file, "$(") {
				key = path.Base(file)
			}
		}
	}
	return namespace, name, key
}

// driverConfigKeys are the keys of a cloud-config that the driver knows. It exits at startup when it finds another one.
var driverConfigKeys = []string{"api-url", "api-key", "secret-key", "project-id", "ssl-no-verify", "zone"}

func notUsed() Finding {
	return Skipf("not used: no CSIDriver, Deployment or volume is of %s", DriverName)
}

func driverKeys(f *Facts) Finding {
	namespace, name, _ := f.DriverSecret()
	where := fmt.Sprintf("Secret %s/%s", namespace, name)
	out := Passf("the CSI driver can read its cloud-config")
	switch {
	case !f.UsesDriver():
		return notUsed()
	case name == "":
		return out.With("keys", "not known: the driver's are in no Secret")
	case f.Driver.NoFile != "":
		return Problemf("%s, which the CSI driver needs, %s", where, f.Driver.NoFile)
	}
	cfg, err := cloudconfig.Parse(strings.NewReader(f.Driver.File))
	if err != nil {
		return Problemf("%s, which the CSI driver needs, has no cloud-config that can be read: %v", where, err)
	}
	var unknown []string
	for _, l := range ini.Scan(f.Driver.File) {
		if key := strings.ToLower(l.Name); (l.Kind == ini.Key || l.Kind == ini.Bare) && !slices.Contains(driverConfigKeys, key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		out = Problemf("the CSI driver exits at startup: its cloud-config has keys that it does not know: %s", strings.Join(unknown, ", "))
	}
	note := "of " + where
	if cfg.APIKey == f.Config.APIKey && cfg.SecretKey == f.Config.SecretKey && cfg.APIURL == f.Config.APIURL {
		note += ", the same as the controller's"
	}
	return out.With("keys", note)
}

func driverTopology(f *Facts) Finding {
	if !f.UsesDriver() {
		return notUsed()
	}
	registered := map[string]*storagev1.CSINodeDriver{}
	for i := range f.Driver.Nodes {
		drivers := f.Driver.Nodes[i].Spec.Drivers
		if j := slices.IndexFunc(drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == DriverName }); j >= 0 {
			registered[f.Driver.Nodes[i].Name] = &drivers[j]
		}
	}
	judged := 0
	objects := f.nodeObjects(func(n *corev1.Node) string {
		vm, ok := f.VM(n)
		entry := registered[n.Name]
		if entry == nil || !ok {
			return "" // NODE-002, or the driver does not run there
		}
		judged++
		switch label, labelled := n.Labels[ZoneKey]; {
		case entry.NodeID != vm.ID:
			return fmt.Sprintf("its CSINode says VM %s, the node is VM %s (%s): volumes are attached to the wrong VM", entry.NodeID, vm.Name, vm.ID)
		case !slices.Contains(entry.TopologyKeys, ZoneKey):
			return "its CSINode lacks the topology key " + ZoneKey
		case !labelled || label != vm.ZoneID:
			return fmt.Sprintf("its label %s is %q, its zone %s is %s", ZoneKey, label, vm.ZoneName, vm.ZoneID)
		}
		return ""
	})
	return Passf("%s", english.Plural(judged, "node", "")).Unless(objects, "node", "%s with another zone or VM than CloudStack's").
		Fix("let the driver register again: `kubectl label node %s %s-`, then delete the driver's Pods on them (kubectl get pods -A -o wide shows which)", namesOf(objects), ZoneKey)
}
