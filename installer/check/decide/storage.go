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
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// Storage is what Kubernetes knows of the CSI driver for CloudStack.
type Storage struct {
	Driver      *storagev1.CSIDriver // nil where there is none
	Deployments []appsv1.Deployment  // of the driver
	DaemonSets  []appsv1.DaemonSet
	Classes     []storagev1.StorageClass
	Volumes     []corev1.PersistentVolume
	// Nodes and Attachments are read where the driver is used.
	Nodes       []storagev1.CSINode
	Attachments []storagev1.VolumeAttachment
}

// StorageOf returns what of the objects belongs to the driver.
func StorageOf(driver *storagev1.CSIDriver, deployments []appsv1.Deployment, sets []appsv1.DaemonSet, classes []storagev1.StorageClass, volumes []corev1.PersistentVolume) Storage {
	s := Storage{Driver: driver}
	for i := range deployments {
		if ofDriver(deployments[i].Name, &deployments[i].Spec.Template) {
			s.Deployments = append(s.Deployments, deployments[i])
		}
	}
	for i := range sets {
		if ofDriver(sets[i].Name, &sets[i].Spec.Template) {
			s.DaemonSets = append(s.DaemonSets, sets[i])
		}
	}
	for i := range classes {
		if classes[i].Provisioner == storage.DriverName {
			s.Classes = append(s.Classes, classes[i])
		}
	}
	for i := range volumes {
		if csi := volumes[i].Spec.CSI; csi != nil && csi.Driver == storage.DriverName {
			s.Volumes = append(s.Volumes, volumes[i])
		}
	}
	return s
}

// ofDriver reports whether a workload runs the driver, by the name of the image, which mirrors keep, or by the
// names in the driver's chart and manifests.
func ofDriver(name string, t *corev1.PodTemplateSpec) bool {
	return name == "cloudstack-csi-controller" || name == "cloudstack-csi-node" || slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool {
		repository, _, _ := strings.Cut(path.Base(c.Image), "@")
		repository, _, _ = strings.Cut(repository, ":")
		return repository == "cloudstack-csi-driver"
	})
}

// Used reports whether the cluster has the driver, or anything that needs it.
func (s *Storage) Used() bool {
	return s.Driver != nil || len(s.Deployments)+len(s.DaemonSets)+len(s.Classes)+len(s.Volumes) > 0
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

// CSIDriver decides STOR-001.
func CSIDriver(s Storage, nodes []corev1.Node) Finding {
	if !s.Used() {
		return Skipf("not used: no CSIDriver, StorageClass or volume is of %s", storage.DriverName)
	}
	driver := func(format string, args ...any) Object {
		return Object{Kind: "CSIDriver", Name: storage.DriverName, Message: fmt.Sprintf(format, args...)}
	}
	var objects []Object
	switch {
	case s.Driver == nil:
		objects = append(objects, driver("does not exist"))
	case s.Driver.Spec.AttachRequired != nil && !*s.Driver.Spec.AttachRequired:
		objects = append(objects, driver("has attachRequired: false, so no volume is attached to a VM"))
	}
	if len(s.Deployments) == 0 {
		objects = append(objects, driver("no Deployment of its controller exists"))
	}
	if len(s.DaemonSets) == 0 {
		objects = append(objects, driver("no DaemonSet for the nodes exists"))
	}
	for i := range s.Deployments {
		objects = append(objects, unready(DeploymentOf(&s.Deployments[i]))...)
	}
	desired := int32(0)
	for i := range s.DaemonSets {
		desired += s.DaemonSets[i].Status.DesiredNumberScheduled
		objects = append(objects, unready(DaemonSetOf(&s.DaemonSets[i]))...)
	}
	registered := s.registered()
	if len(registered) < int(desired) {
		for i := range nodes {
			if _, ok := registered[nodes[i].Name]; !ok && s.wanted(&nodes[i]) {
				objects = append(objects, NodeObject(&nodes[i], "the driver is not registered in its CSINode: no volume can be mounted there"))
			}
		}
	}
	return Passf("registered on %s, %s", plural.Count(len(registered), "node"), plural.Count(len(s.Volumes), "volume")).
		Unless(objects, "object", "something is missing or not ready: %s")
}

func unready(w Workload) []Object {
	o := w.object()
	switch {
	case w.Wanted == 0 && w.Kind == "Deployment":
		o.Message = "has 0 replicas"
	case w.Ready < w.Wanted:
		o.Message = fmt.Sprintf("%d of %s ready", w.Ready, plural.Count(int(w.Wanted), "Pod"))
	default:
		return nil
	}
	return []Object{o}
}

// registered are the entries of the driver by Node.
func (s *Storage) registered() map[string]*storagev1.CSINodeDriver {
	out := map[string]*storagev1.CSINodeDriver{}
	for i := range s.Nodes {
		drivers := s.Nodes[i].Spec.Drivers
		for j := range drivers {
			if drivers[j].Name == storage.DriverName {
				out[s.Nodes[i].Name] = &drivers[j]
			}
		}
	}
	return out
}

// wanted reports whether a DaemonSet of the driver selects the node.
func (s *Storage) wanted(n *corev1.Node) bool {
	return slices.ContainsFunc(s.DaemonSets, func(d appsv1.DaemonSet) bool {
		return labels.SelectorFromSet(d.Spec.Template.Spec.NodeSelector).Matches(labels.Set(n.Labels))
	})
}

// Topology decides STOR-002.
func Topology(s Storage, nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
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
			continue // STOR-001
		}
		judged++
		label, labelled := n.Labels[storage.ZoneKey]
		was := len(objects)
		switch {
		case entry.NodeID != vm.ID:
			objects = append(objects, NodeObject(n, "its CSINode says VM %s, the node is VM %s (%s): volumes are attached to the wrong VM", entry.NodeID, vm.Name, vm.ID))
		case !slices.Contains(entry.TopologyKeys, storage.ZoneKey):
			objects = append(objects, NodeObject(n, "its CSINode lacks the topology key %s", storage.ZoneKey))
		case !labelled || label != vm.ZoneID:
			objects = append(objects, NodeObject(n, "its label %s is %q, its zone %s is %s", storage.ZoneKey, label, vm.ZoneName, vm.ZoneID))
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
		f = f.Fix("let the driver register again: kubectl label node %s %s-, then delete the driver's Pods on them: kubectl get pods -A -o wide shows which",
			strings.Join(again, " "), storage.ZoneKey)
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
				if e.Key == storage.ZoneKey && e.Operator == corev1.NodeSelectorOpIn {
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

// Offerings decides STOR-003.
func Offerings(s Storage, nodes []corev1.Node, offerings []cloudstack.DiskOffering) Finding {
	zones := map[string]bool{}
	for i := range nodes {
		if zone := nodes[i].Labels[storage.ZoneKey]; zone != "" {
			zones[zone] = true
		}
	}
	var objects []Object
	for i := range s.Classes {
		c := &s.Classes[i]
		if why := offeringProblem(c, offerings); why != "" {
			objects = append(objects, classObject(c, why))
		}
		immediate := c.VolumeBindingMode == nil || *c.VolumeBindingMode == storagev1.VolumeBindingImmediate
		if immediate && len(c.AllowedTopologies) == 0 && len(zones) > 1 {
			objects = append(objects, classObject(c, fmt.Sprintf(
				"volumeBindingMode is Immediate and the nodes are in %d zones: the driver creates a volume for one zone only", len(zones))))
		}
	}
	return Passf("%s", plural.Count(len(s.Classes), "StorageClass")).Unless(objects, "problem", "no volume can be created as asked: %s")
}

func classObject(c *storagev1.StorageClass, message string) Object {
	return Object{Kind: "StorageClass", Name: c.Name, Message: message}
}

func offeringProblem(c *storagev1.StorageClass, offerings []cloudstack.DiskOffering) string {
	id := c.Parameters[storage.DiskOfferingKey]
	if id == "" {
		return "has no parameter " + storage.DiskOfferingKey
	}
	at := slices.IndexFunc(offerings, func(o cloudstack.DiskOffering) bool { return strings.EqualFold(o.ID, id) })
	if at < 0 {
		return fmt.Sprintf("its disk offering %s does not exist, or the driver's keys may not see it", id)
	}
	switch o := &offerings[at]; {
	case o.State == "Inactive":
		return fmt.Sprintf("its disk offering %s is inactive", o.Name)
	case !o.Customized:
		return fmt.Sprintf("its disk offering %s has a fixed size (%d GiB), the driver needs one of custom size", o.Name, o.SizeGiB)
	case o.StorageType == "local":
		return fmt.Sprintf("its disk offering %s is on local storage, the driver needs shared storage", o.Name)
	}
	return ""
}
