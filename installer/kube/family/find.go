// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package family

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
)

// What a takeover writes to the workload that it stops.
const (
	// StoppedSelector keeps a DaemonSet's Pods off every node.
	StoppedSelector = "csccm.io/stopped"
	// ReplicasAnnotation says how many replicas a stopped Deployment had.
	ReplicasAnnotation = "csccm.io/replicas-before-takeover"
	// KeptAnnotation marks a predecessor whose place csccm's controller has taken: it stays, with no Pods.
	KeptAnnotation = "csccm.io/kept-by-takeover"
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
	// Lease is nil when it elects no leader.
	Lease *lease.Name `json:"lease,omitempty"`

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

// Replaceable reports whether a takeover can take its place.
func (p *Predecessor) Replaceable() bool { return p.Family == Apache || p.Family == Leaseweb }

// Own is csccm's release in the cluster.
type Own struct {
	Installed bool       `json:"installed"`
	Ready     int32      `json:"ready"`
	Lease     lease.Name `json:"lease"`
	// InstanceTypeFormat is the controller's setting; "" for its default.
	InstanceTypeFormat string `json:"instanceTypeFormat,omitempty"`
	// Words are those that the controller is started with.
	Words     []string      `json:"-"`
	Workloads []Predecessor `json:"-"`
}

// Controllers are the cloud controller managers of a cluster.
type Controllers struct {
	Predecessors []Predecessor
	Kept         []Predecessor // those whose place csccm's controller has taken, with no Pods
	Own          Own
}

// Find reads them. Errors of the API server are as it sent them.
func Find(ctx context.Context, kube kubernetes.Interface, release, namespace string) (*Controllers, error) {
	f := &Controllers{Own: Own{Lease: lease.Default}}
	all, err := cluster.Workloads(ctx, kube, metav1.NamespaceAll, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		w := &all[i]
		if cluster.InRelease(w.Meta.Labels, release) && len(w.Pod.Containers) > 0 && w.Meta.Namespace == namespace {
			f.Own.add(w)
		}
		switch p, is := recognise(w); {
		case is && p.Wanted == 0 && w.Meta.Annotations[KeptAnnotation] != "":
			f.Kept = append(f.Kept, p)
		case is:
			f.Predecessors = append(f.Predecessors, p)
		}
	}
	return f, nil
}

func (o *Own) add(w *cluster.Workload) {
	o.Installed, o.Ready = true, o.Ready+w.Ready
	o.Workloads = append(o.Workloads, of(w))
	o.Words = Arguments(&w.Pod.Containers[0])
	if l := LeaseOf(o.Words); l != nil {
		o.Lease = *l
	}
	o.InstanceTypeFormat, _ = Argument(o.Words, "instance-type-format")
}

func of(w *cluster.Workload) Predecessor {
	p := Predecessor{
		Kind: w.Kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name, Wanted: w.Wanted, Ready: w.Ready, Pod: w.Pod,
		Helm: w.Meta.Annotations["meta.helm.sh/release-name"] != "",
	}
	if w.Selector != nil {
		p.Selector = w.Selector.MatchLabels
	}
	n, err := strconv.ParseInt(w.Meta.Annotations[ReplicasAnnotation], 10, 32)
	if _, stopped := w.Pod.NodeSelector[StoppedSelector]; stopped && w.Kind == "DaemonSet" {
		p.Wanted, n, err = 0, 1, nil // on its nodes
	}
	if err == nil {
		p.Before = int32(n)
	}
	return p
}

// recognise reports whether a workload runs a cloud controller manager that is not csccm's.
func recognise(w *cluster.Workload) (Predecessor, bool) {
	whose, container := OfPod(w.Pod, w.Meta.Name)
	if w.Meta.Labels[cluster.NameLabel] == cluster.ChartName || container == nil {
		return Predecessor{}, false
	}
	p := of(w)
	p.Family, p.Image, p.Lease = whose, container.Image, LeaseOf(Arguments(container))
	return p, true
}

// LeaseOf is the lease by which a cloud controller manager elects its leader: it does unless told not to.
func LeaseOf(args []string) *lease.Name {
	if v, found := Argument(args, "leader-elect"); found {
		if elects, err := strconv.ParseBool(v); err == nil && !elects {
			return nil
		}
	}
	l := lease.Default
	if v, found := Argument(args, "leader-elect-resource-name"); found {
		l.Name = v
	}
	if v, found := Argument(args, "leader-elect-resource-namespace"); found {
		l.Namespace = v
	}
	return &l
}

// LeaseOfChart is the lease that the controller of a rendered chart will use.
func LeaseOfChart(manifest string) lease.Name {
	if l := LeaseOf(ArgumentsOfChart(manifest)); l != nil {
		return *l
	}
	return lease.Default
}

// ArgumentsOfChart returns what the controller of a rendered chart is started with. The chart has one workload, whose labels follow
// nameOverride.
func ArgumentsOfChart(manifest string) []string {
	for document := range strings.SplitSeq(manifest, "\n---") {
		var d appsv1.Deployment // what is read of it a Deployment and a DaemonSet have alike
		if yaml.Unmarshal([]byte(document), &d) != nil || d.Kind != "Deployment" && d.Kind != "DaemonSet" {
			continue
		}
		if c := d.Spec.Template.Spec.Containers; len(c) > 0 {
			return Arguments(&c[0])
		}
	}
	return nil
}
