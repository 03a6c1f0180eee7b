// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package family finds the cloud controller managers of a cluster, and reports whose they are.
package family

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/pkg/service"
)

// Family says whose controller a predecessor is.
type Family string

// Families.
const (
	Apache   Family = "apache"   // apache/cloudstack-kubernetes-provider
	Leaseweb Family = "leaseweb" // Leaseweb's fork
	Other    Family = "other"    // of another cloud, or not known
	Balancer Family = "balancer" // no cloud controller manager: it gives Services without a class addresses of its own
	Chart    Family = "chart"    // csccm's own, of any release
)

// Replaceable reports whether a takeover can take its place.
func (f Family) Replaceable() bool { return f == Apache || f == Leaseweb }

// OfPod returns the container that runs a cloud controller manager, and whose it is. named are the labels and the name
// of the Pod, or of its workload.
func OfPod(pod *corev1.PodSpec, named *metav1.ObjectMeta) (Family, *corev1.Container) {
	for _, c := range pod.Containers {
		switch f := ofContainer(&c, named.Name); {
		case f == "":
		case named.Labels[cluster.NameLabel] == cluster.ChartName,
			named.Labels[cluster.NameLabel] == cluster.ChartName+"-self-test":
			return Chart, &c
		default:
			return f, &c
		}
	}
	return "", nil
}

const usualName = "cloud-controller-manager"

// ofContainer judges by the arguments, which images that were mirrored or built by hand keep, then by the image.
func ofContainer(c *corev1.Container, name string) Family {
	provider, _ := cluster.Argument(cluster.Arguments(c), "cloud-provider")
	switch {
	case strings.Contains(c.Image, "leaseweb"), provider == "cloudstack":
		return Leaseweb
	case strings.Contains(c.Image, "cloudstack-kubernetes-provider"), provider == "external-cloudstack":
		return Apache
	case balances(c):
		return Balancer
	case strings.Contains(c.Image, usualName),
		strings.Contains(name, usualName) && (provider != "" || strings.Contains(c.Name, usualName)):
		return Other
	}
	return ""
}

// balances reports whether a container is MetalLB's controller, or kube-vip, and serves Services without a class.
func balances(c *corev1.Container) bool {
	is := func(name string) bool {
		return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name && v.Value == "true" })
	}
	_, class := cluster.Argument(cluster.Arguments(c), "lb-class")
	metalLB := strings.Contains(c.Image, "metallb") && strings.Contains(c.Image, "controller")
	return metalLB && !class || is("svc_enable") && !is("lb_class_only")
}

// ClassesOf returns the classes of Services that a controller of csccm serves which is started with these words.
func ClassesOf(words []string) service.Classes {
	own, _ := cluster.Argument(words, "load-balancer-class")
	classless, _ := cluster.Argument(words, "load-balancer-classless")
	return service.Classes{Own: own, Classless: classless == "true"}
}

// What a takeover writes to the workload that it stops.
const (
	// StoppedSelector keeps a DaemonSet's Pods off every node.
	StoppedSelector = "csccm.io/stopped"
	// ReplicasAnnotation says how many replicas a stopped Deployment had.
	ReplicasAnnotation = "csccm.io/replicas-before-takeover"
	// KeptAnnotation marks a predecessor whose place csccm's controller has taken: it stays, with no Pods.
	KeptAnnotation = "csccm.io/kept-by-takeover"
	// AdoptedAnnotation lists the ids of the addresses that a takeover marked as csccm's. Tenants may write Services,
	// and so it is not kept on them.
	AdoptedAnnotation = "csccm.io/addresses-adopted-by-takeover"
)

// Predecessor is a workload that runs another cloud controller manager.
type Predecessor struct {
	Family    Family `json:"family"`
	Kind      string `json:"kind"` // Deployment or DaemonSet
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	// Wanted is how many Pods it wants; 0 for one that is stopped.
	Wanted int32 `json:"wanted"`
	// Before is how many Pods it wanted before a takeover stopped it; 0 if none did.
	Before int32 `json:"before,omitempty"`
	// Adopted are the ids of the addresses that a takeover marked as csccm's.
	Adopted []string `json:"adopted,omitempty"`
	// Lease is nil when it elects no leader.
	Lease *lease.Name `json:"lease,omitempty"`
	// Port is the one of the node that it listens on; "" with a network of its own.
	Port string `json:"port,omitempty"`

	Ready    int32             `json:"-"`
	Helm     bool              `json:"-"` // Helm installed it
	Selector map[string]string `json:"-"`
	Pod      *corev1.PodSpec   `json:"-"`
}

func (p *Predecessor) String() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }

// Deletion is the command that deletes it.
func (p *Predecessor) Deletion() string {
	return fmt.Sprintf("kubectl -n %s delete %s %s", p.Namespace, strings.ToLower(p.Kind), p.Name)
}

// Own is csccm's release in the cluster.
type Own struct {
	Installed bool       `json:"installed"`
	Ready     int32      `json:"ready"`
	Lease     lease.Name `json:"lease"`
	Port      string     `json:"port,omitempty"` // as of a Predecessor
	// InstanceTypeFormat is the controller's setting; "" for its default.
	InstanceTypeFormat string `json:"instanceTypeFormat,omitempty"`
	// Words are those that the controller is started with.
	Words     []string      `json:"-"`
	Workloads []Predecessor `json:"-"`
}

// Controllers are the cloud controller managers of a cluster.
type Controllers struct {
	Predecessors []Predecessor // that a takeover can replace
	Kept         []Predecessor // those whose place csccm's controller has taken, with no Pods
	Rivals       []Rival       // all that are at work beside the release, the predecessors among them
	Pods         []corev1.Pod  // of kube-system
	Own          Own
}

// Find reads them. Errors of the API server are as it sent them.
func Find(
	ctx context.Context, kube kubernetes.Interface, c clock.PassiveClock, release, namespace string,
) (*Controllers, error) {
	f := &Controllers{Own: Own{Lease: lease.Default}}
	e, err := read(ctx, kube)
	if err != nil {
		return nil, err
	}

	for _, w := range e.Workloads {
		if cluster.InRelease(w.Meta.Labels, release) && len(w.Pod.Containers) > 0 && w.Meta.Namespace == namespace {
			f.Own.add(&w)
		}
		switch p := of(&w); {
		case !p.Family.Replaceable():
		case p.Wanted == 0 && w.Meta.Annotations[KeptAnnotation] != "":
			f.Kept = append(f.Kept, p)
		default:
			f.Predecessors = append(f.Predecessors, p)
		}
	}

	e.At, e.Release, e.Namespace, e.Words = c.Now(), release, namespace, f.Own.Words
	f.Rivals, f.Pods = e.Rivals(), e.Pods
	return f, nil
}

func (o *Own) add(w *cluster.Workload) {
	o.Installed, o.Ready = true, o.Ready+w.Ready
	o.Workloads = append(o.Workloads, of(w))
	o.startedAs(w.Pod)
}

func (o *Own) startedAs(pod *corev1.PodSpec) {
	o.Words = cluster.Arguments(&pod.Containers[0])
	o.Lease, o.Port = *cmp.Or(LeaseOf(o.Words), &o.Lease), nodePort(pod, &pod.Containers[0])
	o.InstanceTypeFormat, _ = cluster.Argument(o.Words, "instance-type-format")
}

// FromChart takes the lease and the port from a rendered chart, whose controller will have them.
func (o *Own) FromChart(manifest string) {
	if pod := podOfChart(manifest); pod != nil {
		o.Lease = lease.Default
		o.startedAs(pod)
	}
}

// nodePort returns the port of the node on which a controller listens; "" with a network of its own.
func nodePort(pod *corev1.PodSpec, c *corev1.Container) string {
	if !pod.HostNetwork {
		return ""
	}
	port, _ := cluster.Argument(cluster.Arguments(c), "secure-port")
	return cmp.Or(port, strconv.Itoa(cloudprovider.CloudControllerManagerPort))
}

// OnPort names a Pod of kube-system, of no provider for CloudStack, that has a port of the nodes; "" for none.
func (f *Controllers) OnPort(port string) string {
	for _, p := range f.Pods {
		if whose, _ := OfPod(&p.Spec, &p.ObjectMeta); !p.Spec.HostNetwork || whose != "" {
			continue
		}
		for _, c := range p.Spec.Containers {
			if slices.ContainsFunc(c.Ports, func(x corev1.ContainerPort) bool {
				return strconv.Itoa(int(x.ContainerPort)) == port
			}) {
				return p.Namespace + "/" + p.Name
			}
		}
	}
	return ""
}

// Stopped returns the providers whose place csccm's controller has taken, or was about to take, and which have no Pods.
func Stopped(ctx context.Context, kube kubernetes.Interface) (stopped []Predecessor, err error) {
	all, err := cluster.Workloads(ctx, kube, metav1.NamespaceAll, metav1.ListOptions{})
	for i := range all {
		if p := of(&all[i]); p.Family.Replaceable() && p.Wanted == 0 {
			stopped = append(stopped, p)
		}
	}
	return stopped, err
}

// of describes a workload; its family is "" where it runs no cloud controller manager.
func of(w *cluster.Workload) Predecessor {
	p := Predecessor{
		Kind: w.Kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name, Wanted: w.Wanted, Ready: w.Ready, Pod: w.Pod,
		Helm: w.Meta.Annotations["meta.helm.sh/release-name"] != "",
	}

	if w.Selector != nil {
		p.Selector = w.Selector.MatchLabels
	}

	n, _ := strconv.ParseInt(w.Meta.Annotations[ReplicasAnnotation], 10, 32)
	p.Before, p.Adopted = int32(n), strings.FieldsFunc(w.Meta.Annotations[AdoptedAnnotation],
		func(r rune) bool { return r == ',' })
	if _, stopped := w.Pod.NodeSelector[StoppedSelector]; stopped && w.Kind == "DaemonSet" {
		p.Wanted, p.Before = 0, 1 // on its nodes
	}

	if whose, container := OfPod(w.Pod, w.Meta); container != nil {
		p.Family, p.Image, p.Lease = whose, container.Image, LeaseOf(cluster.Arguments(container))
		p.Port = nodePort(w.Pod, container)
	}

	return p
}

// LeaseOf is the lease by which a cloud controller manager elects its leader: it does unless told not to.
func LeaseOf(args []string) *lease.Name {
	v, _ := cluster.Argument(args, "leader-elect")
	if elects, err := strconv.ParseBool(v); err == nil && !elects {
		return nil
	}
	name, _ := cluster.Argument(args, "leader-elect-resource-name")
	namespace, _ := cluster.Argument(args, "leader-elect-resource-namespace")
	return &lease.Name{Namespace: cmp.Or(namespace, lease.Default.Namespace), Name: cmp.Or(name, lease.Default.Name)}
}

// ArgumentsOfChart returns what the controller of a rendered chart is started with.
func ArgumentsOfChart(manifest string) []string {
	if pod := podOfChart(manifest); pod != nil {
		return cluster.Arguments(&pod.Containers[0])
	}
	return nil
}

// podOfChart returns the Pods' template of a rendered chart, which has one workload, whose labels follow nameOverride.
func podOfChart(manifest string) *corev1.PodSpec {
	for document := range strings.SplitSeq(manifest, "\n---") {
		var d appsv1.Deployment // what is read of it a Deployment and a DaemonSet have alike
		if yaml.Unmarshal([]byte(document), &d) != nil || d.Kind != "Deployment" && d.Kind != "DaemonSet" {
			continue
		}
		if pod := &d.Spec.Template.Spec; len(pod.Containers) > 0 {
			return pod
		}
	}
	return nil
}
