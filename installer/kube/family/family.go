// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package family finds the cloud controller managers of a cluster, and reports which provider each belongs to.
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

// Family is the provider that a cloud controller manager belongs to.
type Family string

// Families.
const (
	Apache   Family = "apache"   // apache/cloudstack-kubernetes-provider
	Leaseweb Family = "leaseweb" // Leaseweb's fork
	Other    Family = "other"    // another cloud, or unknown
	Balancer Family = "balancer" // a load balancer for Services without a class, such as MetalLB
	Chart    Family = "chart"    // csccm's own chart, any release
)

// Replaceable reports whether csccm takeover can replace the controller.
func (f Family) Replaceable() bool { return f == Apache || f == Leaseweb }

// OfPod returns the container that runs a cloud controller manager, and its family; "" and nil if there is none. named
// has the labels and the name of the Pod, or of its workload.
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

// ofContainer judges by the arguments, which stay the same if an image is mirrored or built by hand, then by the image.
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

// balances reports whether a container is MetalLB's controller or kube-vip, and serves Services without a class.
func balances(c *corev1.Container) bool {
	is := func(name string) bool {
		return slices.Contains(c.Env, corev1.EnvVar{Name: name, Value: "true"})
	}
	_, class := cluster.Argument(cluster.Arguments(c), "lb-class")
	metalLB := strings.Contains(c.Image, "metallb") && strings.Contains(c.Image, "controller")
	return metalLB && !class || is("svc_enable") && !is("lb_class_only")
}

// ClassesOf returns the load balancer classes that csccm's controller serves when it runs with these arguments.
func ClassesOf(words []string) service.Classes {
	own, _ := cluster.Argument(words, "load-balancer-class")
	classless, _ := cluster.Argument(words, "load-balancer-classless")
	return service.Classes{Own: own, Classless: classless == "true"}
}

// Labels and annotations that a takeover writes to the workload that it stops.
const (
	// StoppedSelector is a node selector that matches no node, so that a DaemonSet has no Pods.
	StoppedSelector = "csccm.io/stopped"
	// ReplicasAnnotation is the number of replicas that a stopped Deployment had.
	ReplicasAnnotation = "csccm.io/replicas-before-takeover"
	// ReplacedAnnotation marks a predecessor that csccm's controller has replaced. It is kept, with no Pods.
	ReplacedAnnotation = "csccm.io/kept-by-takeover"
	// AdoptedAnnotation lists the ids of the addresses that a takeover tagged as csccm's. The list is not stored on the
	// Services, because tenants may be able to edit them.
	AdoptedAnnotation = "csccm.io/addresses-adopted-by-takeover"
)

// Predecessor is a workload that runs another cloud controller manager.
type Predecessor struct {
	Family    Family `json:"family"`
	Kind      string `json:"kind"` // Deployment or DaemonSet
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	// Wanted is the number of Pods that it wants; 0 if it is stopped.
	Wanted int32 `json:"wanted"`
	// Before is the number of Pods that it wanted before a takeover stopped it; 0 if no takeover did.
	Before int32 `json:"before,omitempty"`
	// Adopted are the ids of the addresses that a takeover tagged as csccm's.
	Adopted []string `json:"adopted,omitempty"`
	// Lease is nil if it does not use leader election.
	Lease *lease.Name `json:"lease,omitempty"`
	// Port is the port of the node that it listens on; "" if it does not use the host network.
	Port string `json:"port,omitempty"`

	Ready    int32             `json:"-"`
	Replaced bool              `json:"-"` // csccm's controller has replaced it; it is kept, with no Pods
	Helm     bool              `json:"-"` // Helm installed it
	Selector map[string]string `json:"-"`
	Pod      *corev1.PodSpec   `json:"-"`
}

func (p *Predecessor) String() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }

// Deletion returns the command that deletes the workload.
func (p *Predecessor) Deletion() string {
	return fmt.Sprintf("kubectl -n %s delete %s %s", p.Namespace, strings.ToLower(p.Kind), p.Name)
}

// Own is csccm's release in the cluster.
type Own struct {
	Installed bool       `json:"installed"`
	Ready     int32      `json:"ready"`
	Lease     lease.Name `json:"lease"`
	Port      string     `json:"port,omitempty"` // as in Predecessor
	// InstanceTypeFormat is the controller's setting; "" for its default.
	InstanceTypeFormat string `json:"instanceTypeFormat,omitempty"`
	// Words are the arguments that the controller is started with.
	Words     []string      `json:"-"`
	Workloads []Predecessor `json:"-"`
}

// Controllers are the cloud controller managers of a cluster.
type Controllers struct {
	Predecessors []Predecessor // those that a takeover can replace
	Replaced     []Predecessor // those that csccm's controller has replaced, with no Pods
	Rivals       []Rival       // all that run beside the release, including the predecessors
	Pods         []corev1.Pod  // in kube-system
	Own          Own
}

// Find returns the cloud controller managers of the cluster. It returns errors of the API server unchanged.
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
		case p.Replaced:
			f.Replaced = append(f.Replaced, p)
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

// FromChart sets the lease and the port to those that a rendered chart's controller will use.
func (o *Own) FromChart(manifest string) {
	if pod := podOfChart(manifest); pod != nil {
		o.Lease = lease.Default
		o.startedAs(pod)
	}
}

// nodePort returns the port of the node on which a controller listens; "" if it does not use the host network.
func nodePort(pod *corev1.PodSpec, c *corev1.Container) string {
	if !pod.HostNetwork {
		return ""
	}
	port, _ := cluster.Argument(cluster.Arguments(c), "secure-port")
	return cmp.Or(port, strconv.Itoa(cloudprovider.CloudControllerManagerPort))
}

// OnPort returns the name of a Pod in kube-system that uses a port of the nodes and is not a cloud controller manager;
// "" if there is none.
func (f *Controllers) OnPort(port string) string {
	for _, p := range f.Pods {
		if whose, _ := OfPod(&p.Spec, &p.ObjectMeta); whose != "" {
			continue
		}
		for _, c := range p.Spec.Containers {
			if slices.ContainsFunc(c.Ports, func(x corev1.ContainerPort) bool {
				of := x.HostPort
				if p.Spec.HostNetwork {
					of = x.ContainerPort
				}
				return strconv.Itoa(int(of)) == port
			}) {
				return p.Namespace + "/" + p.Name
			}
		}
	}
	return ""
}

// Replaceable returns the providers that a takeover can replace or has replaced; those have no Pods.
func Replaceable(ctx context.Context, kube kubernetes.Interface) (found []Predecessor, err error) {
	all, err := cluster.Workloads(ctx, kube, metav1.NamespaceAll, metav1.ListOptions{})
	for i := range all {
		if p := of(&all[i]); p.Family.Replaceable() {
			found = append(found, p)
		}
	}
	return found, err
}

// of describes a workload. Family is "" if the workload does not run a cloud controller manager.
func of(w *cluster.Workload) Predecessor {
	p := Predecessor{
		Kind: w.Kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name, Wanted: w.Wanted, Ready: w.Ready, Pod: w.Pod,
		Helm: w.Meta.Annotations["meta.helm.sh/release-name"] != "",
	}

	if w.Selector != nil {
		p.Selector = w.Selector.MatchLabels
	}

	n, _ := strconv.ParseInt(w.Meta.Annotations[ReplicasAnnotation], 10, 32)
	p.Before, p.Adopted = int32(n),
		strings.FieldsFunc(w.Meta.Annotations[AdoptedAnnotation], func(r rune) bool { return r == ',' })
	if _, stopped := w.Pod.NodeSelector[StoppedSelector]; stopped && w.Kind == "DaemonSet" {
		p.Wanted, p.Before = 0, 1 // one Pod on each of its nodes
	}

	p.Replaced = p.Wanted == 0 && w.Meta.Annotations[ReplacedAnnotation] != ""
	if whose, container := OfPod(w.Pod, w.Meta); container != nil {
		p.Family, p.Image, p.Lease = whose, container.Image, LeaseOf(cluster.Arguments(container))
		p.Port = nodePort(w.Pod, container)
	}

	return p
}

// LeaseOf returns the lease that a cloud controller manager uses for leader election; nil with --leader-elect=false.
// Leader election is on by default.
func LeaseOf(args []string) *lease.Name {
	v, _ := cluster.Argument(args, "leader-elect")
	if elects, err := strconv.ParseBool(v); err == nil && !elects {
		return nil
	}
	name, _ := cluster.Argument(args, "leader-elect-resource-name")
	namespace, _ := cluster.Argument(args, "leader-elect-resource-namespace")
	return &lease.Name{Namespace: cmp.Or(namespace, lease.Default.Namespace), Name: cmp.Or(name, lease.Default.Name)}
}

// ArgumentsOfChart returns the arguments of the controller in a rendered chart.
func ArgumentsOfChart(manifest string) []string {
	if pod := podOfChart(manifest); pod != nil {
		return cluster.Arguments(&pod.Containers[0])
	}
	return nil
}

// podOfChart returns the Pod template of the only workload in a rendered chart. The workload cannot be found by its
// labels, because they follow nameOverride.
func podOfChart(manifest string) *corev1.PodSpec {
	for document := range strings.SplitSeq(manifest, "\n---") {
		var d appsv1.Deployment // the fields read here are the same in a DaemonSet
		if yaml.Unmarshal([]byte(document), &d) != nil || d.Kind != "Deployment" && d.Kind != "DaemonSet" {
			continue
		}
		if pod := &d.Spec.Template.Spec; len(pod.Containers) > 0 {
			return pod
		}
	}
	return nil
}
