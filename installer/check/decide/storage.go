// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csccm/csccm/pkg/cloudstack/ini"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// Storage is what Kubernetes knows of the CSI driver for CloudStack.
type Storage struct {
	Driver      *storagev1.CSIDriver // nil where there is none
	Deployments []appsv1.Deployment  // of the driver
	Volumes     []corev1.PersistentVolume
	Nodes       []storagev1.CSINode // read where the driver is used
}

// Names of the CSI driver for CloudStack (github.com/cloudstack/cloudstack-csi-driver), as its version 3.0 uses them.
const (
	// DriverName is the name of the CSIDriver object, and the provisioner of its StorageClasses.
	DriverName = "csi.cloudstack.apache.org"
	// ZoneKey is the topology key whose value is the id of a node's zone in CloudStack.
	ZoneKey = "topology." + DriverName + "/zone"
)

// driverConfigKeys are the keys of a cloud-config that the driver knows. It exits at startup when it finds another one.
var driverConfigKeys = []string{"api-url", "api-key", "secret-key", "project-id", "ssl-no-verify", "zone"}

// UnknownToDriver returns the keys in a cloud-config with which the driver exits.
func UnknownToDriver(file string) []string {
	var out []string
	for _, l := range ini.Scan(file) {
		if name := strings.ToLower(l.Name); (l.Kind == ini.Key || l.Kind == ini.Bare) && !slices.Contains(driverConfigKeys, name) {
			out = append(out, name)
		}
	}
	return out
}

// DriverKeys says which cloud-config the driver reads.
type DriverKeys struct {
	Used    bool     // the cluster has the driver
	Problem string   // what is wrong with the Secret; "" if nothing is known to be
	Unknown []string // keys with which the driver exits
	Note    string   // for people: whose keys they are
}

// StorageKeys decides STOR-001.
func StorageKeys(k DriverKeys) Finding {
	switch {
	case !k.Used:
		return Skipf("not used: no CSIDriver, Deployment or volume is of %s", DriverName)
	case k.Problem != "":
		return Problemf("%s", k.Problem)
	case len(k.Unknown) > 0:
		return Problemf("the CSI driver exits at startup: its cloud-config has keys that it does not know: %s", strings.Join(k.Unknown, ", ")).With("keys", k.Note)
	}
	return Passf("the CSI driver can read its cloud-config").With("keys", k.Note)
}

// StorageOf returns what of the objects belongs to the driver.
func StorageOf(driver *storagev1.CSIDriver, deployments []appsv1.Deployment, volumes []corev1.PersistentVolume) Storage {
	s := Storage{Driver: driver}
	for i := range deployments {
		if ofDriver(deployments[i].Name, &deployments[i].Spec.Template) {
			s.Deployments = append(s.Deployments, deployments[i])
		}
	}
	for i := range volumes {
		if csi := volumes[i].Spec.CSI; csi != nil && csi.Driver == DriverName {
			s.Volumes = append(s.Volumes, volumes[i])
		}
	}
	return s
}

// ofDriver reports whether a workload runs the driver, by the name of the image, which mirrors keep, or by the
// names in the driver's chart and manifests.
func ofDriver(name string, t *corev1.PodTemplateSpec) bool {
	return name == "cloudstack-csi-controller" || slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool {
		repository, _, _ := strings.Cut(path.Base(c.Image), "@")
		repository, _, _ = strings.Cut(repository, ":")
		return repository == "cloudstack-csi-driver"
	})
}

// Used reports whether the cluster has the driver, or anything that needs it.
func (s *Storage) Used() bool {
	return s.Driver != nil || len(s.Deployments)+len(s.Volumes) > 0
}

// Secret returns where the driver's controller has its cloud-config from; "" where it is from no Secret.
func (s *Storage) Secret() (namespace, name string) {
	for i := range s.Deployments {
		for _, v := range s.Deployments[i].Spec.Template.Spec.Volumes {
			if v.Secret != nil {
				return s.Deployments[i].Namespace, v.Secret.SecretName
			}
		}
	}
	return "", ""
}

// ConfigKey returns the key of that Secret which holds the cloud-config.
func (s *Storage) ConfigKey() string {
	key := "cloud-config"
	for i := range s.Deployments {
		for _, c := range s.Deployments[i].Spec.Template.Spec.Containers {
			for _, arg := range c.Args { // the last counts
				if file, ok := strings.CutPrefix(arg, "--cloudstack-config="); ok && !strings.Contains(file, "$(") {
					key = path.Base(file)
				}
			}
		}
	}
	return key
}

// registered are the entries of the driver by Node.
func (s *Storage) registered() map[string]*storagev1.CSINodeDriver {
	out := map[string]*storagev1.CSINodeDriver{}
	for i := range s.Nodes {
		drivers := s.Nodes[i].Spec.Drivers
		for j := range drivers {
			if drivers[j].Name == DriverName {
				out[s.Nodes[i].Name] = &drivers[j]
			}
		}
	}
	return out
}

// Topology decides STOR-002.
func Topology(s Storage, nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	if !s.Used() {
		return Skipf("not used: no CSIDriver, Deployment or volume is of %s", DriverName)
	}
	var objects []Object
	var again []string // Nodes to register again
	zones, judged := map[string]bool{}, 0
	registered := s.registered()
	for i := range nodes {
		n := &nodes[i]
		vm, err := node.Match(vms, n)
		if err != nil {
			continue // NODE-002
		}
		zones[vm.ZoneID] = true
		entry := registered[n.Name]
		if entry == nil {
			continue // the driver does not run there
		}
		judged++
		label, labelled := n.Labels[ZoneKey]
		was := len(objects)
		switch {
		case entry.NodeID != vm.ID:
			objects = append(objects, NodeObject(n, "its CSINode says VM %s, the node is VM %s (%s): volumes are attached to the wrong VM", entry.NodeID, vm.Name, vm.ID))
		case !slices.Contains(entry.TopologyKeys, ZoneKey):
			objects = append(objects, NodeObject(n, "its CSINode lacks the topology key %s", ZoneKey))
		case !labelled || label != vm.ZoneID:
			objects = append(objects, NodeObject(n, "its label %s is %q, its zone %s is %s", ZoneKey, label, vm.ZoneName, vm.ZoneID))
		}
		if len(objects) > was {
			again = append(again, n.Name)
		}
	}
	if len(zones) > 0 {
		objects = append(objects, s.stranded(zones)...)
	}
	f := Passf("%s, %s", plural.Count(judged, "node"), plural.Count(len(s.Volumes), "volume")).
		Unless(objects, "object", "%s with another zone or VM than CloudStack's")
	switch {
	case len(again) == 0 && len(objects) > 0:
		f = f.Fix("a volume's zone cannot be changed: join a node of that zone, or move the data to a new volume")
	case len(again) > 0:
		f = f.Fix("let the driver register again: `kubectl label node %s %s-`, then delete the driver's Pods on them (kubectl get pods -A -o wide shows which)",
			strings.Join(again, " "), ZoneKey)
	}
	return f
}

// stranded are the volumes of zones that no node is in.
func (s *Storage) stranded(zones map[string]bool) []Object {
	var out []Object
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
			continue
		}
		var wants []string
		for _, t := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				if e.Key == ZoneKey && e.Operator == corev1.NodeSelectorOpIn {
					wants = append(wants, e.Values...)
				}
			}
		}
		if len(wants) > 0 && !slices.ContainsFunc(wants, func(zone string) bool { return zones[zone] }) {
			out = append(out, Object{Kind: "PersistentVolume", Name: v.Name, Message: fmt.Sprintf("is of zone %s, where no node is", strings.Join(wants, ", "))})
		}
	}
	return out
}
