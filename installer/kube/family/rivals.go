// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package family

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/service"
)

// Evidence is what is read from the cluster to find out who does the work of a cloud controller manager.
type Evidence struct {
	At                 time.Time
	Release, Namespace string
	Words              []string // arguments of the release's controller, now or after the installation
	Workloads          []cluster.Workload
	Pods               []corev1.Pod // in kube-system
	Nodes              []corev1.Node
	Services           []corev1.Service
	Leases             []coordinationv1.Lease
}

func read(ctx context.Context, kube kubernetes.Interface) (e *Evidence, err error) {
	e = &Evidence{}
	e.Workloads, err = cluster.Workloads(ctx, kube, metav1.NamespaceAll, metav1.ListOptions{})
	e.Pods = cluster.List(ctx, &err, kube.CoreV1().Pods(metav1.NamespaceSystem).List).Items
	e.Nodes = cluster.Nodes(ctx, &err, kube)
	e.Services = cluster.Services(ctx, &err, kube)
	e.Leases = cluster.List(ctx, &err, kube.CoordinationV1().Leases(metav1.NamespaceSystem).List).Items
	return e, err
}

// Rival is a program that does the work of the release's controller, beside it.
type Rival struct {
	Family                Family // Balancer if it only writes the status of Services
	Kind, Namespace, Name string
	What                  string // what it is or does
	Fix                   string
}

func (r *Rival) String() string {
	return strings.TrimSpace(r.Kind+" "+strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")) + ": " + r.What
}

// Remedies of rivals.
const (
	fixProvider  = "`csccm takeover` stops the other provider for CloudStack and keeps everything that it created"
	fixStatic    = "move the Pod's file out of /etc/kubernetes/manifests of its node"
	fixK3s       = "start k3s and RKE2 with disable-cloud-controller: true"
	fixElector   = "find the program that renews the lease, and stop it"
	fixServiceLB = "start the k3s servers with --disable=servicelb"
	fixBalancer  = "have it serve only Services with a class of its own: MetalLB by --lb-class, kube-vip by " +
		"lb_class_only=true; or give the controller one: " +
		"`csccm upgrade --set loadBalancers.class=example.com/cloudstack`"
	fixWriter = "have the other program serve only Services with a class of its own; to remove an address that a " +
		"deleted program left: `kubectl patch service -n %s %s --subresource=status --type=merge " +
		"--patch='{\"status\":{\"loadBalancer\":null}}'`"
)

// Rivals returns the programs that do the work of the release's controller. They are found by arguments, by leases and
// by who writes the status of Services. All of these stay the same if an image is mirrored or a workload is renamed.
func (e *Evidence) Rivals() (out []Rival) {
	elections, names := []lease.Name{}, []string{} // leases and names of the known workloads
	classes := ClassesOf(e.Words)
	beside := !classes.Serves("") // then balancers for Services without a class are no rivals
	for _, w := range e.Workloads {
		p := of(&w)
		r := Rival{Family: p.Family, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}

		own := p.Namespace == e.Namespace && cluster.InRelease(w.Meta.Labels, e.Release)
		if p.Lease != nil || own {
			elections, names = append(elections, *cmp.Or(p.Lease, &lease.Default)), append(names, p.Name)
		}

		served := w.Meta.Labels["svccontroller.k3s.cattle.io/svcname"]
		servedIn := w.Meta.Labels["svccontroller.k3s.cattle.io/svcnamespace"]
		idle := p.Wanted == 0 && (w.Observed || p.Before > 0 || w.Kind == "Deployment")
		switch {
		case own || idle && served == "" || beside && p.Family == Balancer: // no rival
		case served != "":
			if e.handled(classes, servedIn, served) {
				r.Family, r.What, r.Fix = Balancer, "ServiceLB of k3s serves Service "+servedIn+"/"+served, fixServiceLB
			}

		case p.Family == Chart:
			release := w.Meta.Labels[cluster.InstanceLabel]
			if twice := shared(e.Words, cluster.Arguments(&w.Pod.Containers[0])); twice != "" {
				r.What = fmt.Sprintf("release %s of csccm's chart runs %s, as release %s does", release, twice,
					e.Release)
				r.Fix = fmt.Sprintf("`csccm uninstall --release %s` in its namespace, %s; or give each release "+
					"controllers of its own (chart value controllers)", release, p.Namespace)
			}

		case p.Family == Balancer:
			r.What, r.Fix = "serves Services without a class, image "+p.Image, fixBalancer
		case p.Family != "":
			r.What, r.Fix = fmt.Sprintf("%s, image %s", report.Count(int(p.Wanted), "Pod"), p.Image), fixProvider
			if !p.Family.Replaceable() {
				r.Fix = "if it is not needed: `" + p.Deletion() + "`"
			}
		}

		if r.What != "" {
			out = append(out, r)
		}
	}

	for _, p := range e.Pods {
		kind, name := cluster.OwnerOf(&p)
		listed := slices.ContainsFunc(e.Workloads, func(w cluster.Workload) bool {
			return w.Kind == kind && w.Meta.Namespace == p.Namespace && w.Meta.Name == name
		})
		ended := p.DeletionTimestamp != nil || cluster.Ended(p.Status.Phase)
		whose, c := OfPod(&p.Spec, &p.ObjectMeta)
		if listed || ended || c == nil || whose == Chart || beside && whose == Balancer {
			continue
		}

		if whose.Replaceable() { // a takeover replaces only Deployments and DaemonSets
			whose = Other
		}
		if l := LeaseOf(cluster.Arguments(c)); l != nil {
			elections = append(elections, *l)
		}

		stop := Predecessor{Kind: kind, Namespace: p.Namespace, Name: name}
		r := Rival{whose, kind, p.Namespace, name, "another cloud controller manager, image " + c.Image,
			"if it is not needed: `" + stop.Deletion() + "`"}
		if kind == "Pod" && len(p.OwnerReferences) > 0 {
			r.What, r.Fix = "a static Pod, which no Deployment makes", fixStatic
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}

	for _, n := range e.Nodes {
		if kubelet.RunsCloudController(&n) {
			out = append(out,
				Rival{Other, "Node", "", n.Name, "its k3s or RKE2 server runs the built-in cloud controller", fixK3s})
		} else if !beside && kubelet.RunsServiceLB(&n) {
			out = append(out, Rival{Balancer, "Node", "", n.Name, "its k3s server runs ServiceLB", fixServiceLB})
		}
	}

	for _, s := range e.Services {
		by := loadbalancer.StatusWriter(&s)
		if by != "" &&
			!noRival.MatchString(by) &&
			classes.Serves(service.ClassOf(&s)) &&
			classes.Handles(&s) &&
			len(s.Status.LoadBalancer.Ingress) > 0 {
			out = append(out,
				Rival{Balancer, "Service", s.Namespace, s.Name,
					by + " writes its status (field manager), though the controller serves it",
					fmt.Sprintf(fixWriter, s.Namespace, s.Name)})
		}
	}

	return append(out, e.electors(elections, names)...)
}

// noRival matches the field managers that may write the status of the controller's Services.
var noRival = regexp.MustCompile(`cloudstack|cloud-controller-manager|csccm|kubectl`)

// handled reports whether a Service is for the release's controller. It returns true for a Service that is not known:
// the Service was deleted or could not be read.
func (e *Evidence) handled(classes service.Classes, namespace, name string) bool {
	i := slices.IndexFunc(e.Services, func(s corev1.Service) bool { return s.Namespace == namespace && s.Name == name })
	return i < 0 || classes.Handles(&e.Services[i])
}

// electors returns the holders of leases that look like those of cloud controller managers, but that none of the known
// workloads uses. The holder's identity begins with the Pod's name, which begins with the name of the workload.
func (e *Evidence) electors(known []lease.Name, workloads []string) (out []Rival) {
	for _, l := range e.Leases {
		by := lease.Holder(&l)
		name := lease.Name{Namespace: l.Namespace, Name: l.Name}
		pod := slices.ContainsFunc(workloads, func(w string) bool { return strings.HasPrefix(by, w+"-") })
		explained := pod || slices.Contains(known, name) || lease.ByCSCCM(by) || e.ended(by)

		if !strings.Contains(l.Name, usualName) || by == "" || l.Spec.RenewTime == nil || explained {
			continue
		}
		if age := e.At.Sub(l.Spec.RenewTime.Time); age.Abs() <=
			time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second {
			out = append(out, Rival{Other, "Lease", l.Namespace, l.Name,
				fmt.Sprintf("%s, which no Deployment or DaemonSet here is known to make, renewed it %s ago",
					by, age.Round(time.Second)),
				fixElector})
		}
	}
	return out
}

// podOf matches the identity of a Pod of a Deployment, or of a DaemonSet with the usual name. The random suffixes of
// these Pod names use the alphabet of Kubernetes' rand.String.
var podOf = regexp.MustCompile(`^(.+)-[bcdf-hj-np-tv-xz2456789]{6,10}-[bcdf-hj-np-tv-xz2456789]{5}_|^(.*` + usualName +
	`)-[bcdf-hj-np-tv-xz2456789]{5}_`)

// ended reports whether the holder of a lease was a Pod whose workload no longer exists, as after an uninstall: the
// lease is held until its last renewal expires.
func (e *Evidence) ended(holder string) bool {
	match := podOf.FindStringSubmatch(holder)
	if match == nil {
		return false
	}
	name := match[1] + match[2] // one of them is empty
	return !slices.ContainsFunc(e.Workloads, func(w cluster.Workload) bool { return w.Meta.Name == name })
}

// shared returns a list of the controllers that two releases of the chart both run. A release without arguments does
// not run.
func shared(a, b []string) string {
	runs := func(words []string) []string {
		list, _ := cluster.Argument(words, "controllers")
		return strings.Split(cmp.Or(list, "*"), ",")
	}
	first, second := runs(a), runs(b)
	if second[0] == "*" {
		first, second = second, first
	}
	switch {
	case second[0] == "*":
		return "all controllers"
	case len(a) == 0:
		return ""
	case first[0] == "*":
		return strings.Join(second, ", ")
	}
	return strings.Join(slices.DeleteFunc(first, func(c string) bool { return !slices.Contains(second, c) }), ", ")
}
