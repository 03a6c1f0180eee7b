// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninstall takes the controller out of a cluster and says what stays.
// What the controller made in CloudStack for Services, and what it wrote on
// nodes, is not touched: provider IDs cannot be taken back, and load balancers
// carry traffic.
package uninstall

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
)

// Finalizer keeps a Service until a cloud provider has removed its load
// balancer. Without a provider the Service could not be deleted.
const Finalizer = "service.kubernetes.io/load-balancer-cleanup"

// Options of an uninstall.
type Options struct {
	// OrphanLoadBalancers goes on although Services of type LoadBalancer exist.
	OrphanLoadBalancers bool
	// RemoveFinalizers lets these Services be deleted without a controller.
	RemoveFinalizers bool
	// DeleteSecret removes the credentials and the CA certificates too.
	DeleteSecret bool
	// DeleteUser removes from CloudStack what csccm made there: user, keys, account and role.
	DeleteUser bool
	// CAFile is what CloudStack's API is trusted by, where the cluster does not hold it.
	CAFile string
	// Admin makes the administrator's session for the API at cfg's URL, and ends it; for DeleteUser.
	Admin func(ctx context.Context, cfg *cloudstack.Config) (admin *cloudapi.Client, end func(), err error)
}

// LoadBalancer is a Service that the controller worked for.
type LoadBalancer struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Addresses []string `json:"addresses,omitempty"`
	Finalizer bool     `json:"finalizer"`
}

// Plan is what an uninstall would do. It holds no secret.
type Plan struct {
	SchemaVersion int            `json:"schemaVersion"`
	Release       string         `json:"release"`
	Namespace     string         `json:"namespace"`
	Revision      int            `json:"revision,omitempty"` // 0 = there is no release
	LoadBalancers []LoadBalancer `json:"loadBalancers"`
	Deletes       []string       `json:"deletes"`
	Stays         []string       `json:"stays"`
	Warnings      []string       `json:"warnings,omitempty"`
	// Made is what csccm made in CloudStack, as the list in the cluster says.
	Made []credentials.MadeObject `json:"made"`

	steps    []engine.Step
	manifest string // of the release
	ends     bool   // the keys of the Secret end
	secret   bool   // the Secret is deleted
}

// delete plans a step and says what it deletes.
func (p *Plan) delete(step string, do func(context.Context, engine.Note) error, what ...string) {
	p.Deletes = append(p.Deletes, what...)
	p.steps = append(p.steps, engine.Step{Name: step, Do: do})
}

// newPlan reads what is there. The order is that of the steps: only when the Pods have ended may others take over.
func newPlan(ctx context.Context, u *run) (*Plan, error) {
	p := &Plan{
		SchemaVersion: 1, Release: u.Release, Namespace: u.Cluster.Namespace,
		LoadBalancers: []LoadBalancer{}, Deletes: []string{}, Stays: []string{}, Made: []credentials.MadeObject{},
	}
	r, err := u.Find(ctx)
	if err != nil {
		return nil, err
	}
	if r != nil {
		p.Revision, p.manifest = r.Revision, r.Manifest
		p.delete("Helm release", u.release, fmt.Sprintf("Helm release %s/%s, chart %s", p.Namespace, p.Release, r.ChartVersion))
	}
	p.delete("Pods", u.pods)
	for _, read := range []func(context.Context, *run) error{p.lease, p.services, p.cloud, p.credentials, p.others, p.notByHelm, p.nodes} {
		if err := read(ctx, u); err != nil {
			return nil, err
		}
	}
	if len(p.Deletes) == 0 {
		p.steps = nil
	}
	return p, nil
}

func (p *Plan) services(ctx context.Context, u *run) error {
	list, err := u.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return u.Cluster.Explain(err)
	}
	held := 0
	for i := range list.Items {
		s := &list.Items[i]
		// A class names another controller.
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil {
			continue
		}
		lb := LoadBalancer{Namespace: s.Namespace, Name: s.Name, Finalizer: slices.Contains(s.Finalizers, Finalizer)}
		for _, in := range s.Status.LoadBalancer.Ingress {
			lb.Addresses = append(lb.Addresses, strings.TrimSpace(in.IP+" "+in.Hostname))
		}
		if lb.Finalizer {
			held++
		}
		p.LoadBalancers = append(p.LoadBalancers, lb)
		p.Stays = append(p.Stays, fmt.Sprintf("load balancer of Service %s/%s in CloudStack: address %s with its rules", lb.Namespace, lb.Name, cmp.Or(strings.Join(lb.Addresses, ", "), "none yet")))
	}
	switch {
	case held == 0:
	case u.RemoveFinalizers:
		p.delete("finalizers", u.finalizers, fmt.Sprintf("finalizer %s of %s", Finalizer, english.Plural(held, "Service", "")))
	default:
		p.Warnings = append(p.Warnings, fmt.Sprintf("finalizer %s of %s: without a controller nobody can delete them; --remove-finalizers removes it", Finalizer, english.Plural(held, "Service", "")))
	}
	return nil
}

func (p *Plan) credentials(ctx context.Context, u *run) error {
	core := u.Cluster.Kube.CoreV1()
	maps, secrets := core.ConfigMaps(p.Namespace), core.Secrets(p.Namespace)
	_, noSecret := secrets.Get(ctx, credentials.SecretName, metav1.GetOptions{})
	_, noCA := maps.Get(ctx, credentials.CAConfigMap, metav1.GetOptions{})
	for _, c := range []struct {
		what   string
		err    error
		ends   bool // it is of no more use
		delete func(ctx context.Context, name string, o metav1.DeleteOptions) error
		name   string
	}{
		{"Secret", noSecret, p.ends, secrets.Delete, credentials.SecretName},
		{"ConfigMap", noCA, false, maps.Delete, credentials.CAConfigMap},
	} {
		text := fmt.Sprintf("%s %s/%s", c.what, p.Namespace, c.name)
		switch {
		case apierrors.IsNotFound(c.err):
		case c.err != nil:
			return u.Cluster.Explain(c.err)
		case u.DeleteSecret || c.ends:
			p.secret = p.secret || c.what == "Secret"
			p.delete(text, func(ctx context.Context, note engine.Note) error {
				u.Progress.Step("%s", text)
				if err := c.delete(ctx, c.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return u.Cluster.Explain(err)
				}
				note("deleted")
				u.Progress.Done("deleted")
				return nil
			}, text)
		default:
			p.Stays = append(p.Stays, text+" (--delete-secret removes it)")
		}
	}
	return nil
}

func (p *Plan) nodes(ctx context.Context, u *run) error {
	list, err := u.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return u.Cluster.Explain(err)
	}
	p.Stays = append(p.Stays, "provider IDs, labels and addresses of "+english.Plural(len(list.Items), "node", ""))
	var waiting []string
	for i := range list.Items {
		if node.HasTaint(&list.Items[i]) {
			waiting = append(waiting, list.Items[i].Name)
		}
	}
	if len(waiting) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("nodes %s wait for a cloud controller manager and take no Pods until there is one", strings.Join(waiting, ", ")))
	}
	distribution, _, err := u.Cluster.Distribution(ctx, list.Items)
	if err != nil {
		return err
	}
	if distribution == cluster.CKS {
		p.Warnings = append(p.Warnings, "CloudStack's Kubernetes Service installs its own provider again as soon as no Pod is named cloud-controller-manager")
	}
	return nil
}

// wouldOrphan is the error of an uninstall that would leave load balancers behind.
func wouldOrphan(list []LoadBalancer) error {
	var names []string
	for _, lb := range list {
		names = append(names, lb.Namespace+"/"+lb.Name)
	}
	if len(names) > 5 {
		names = append(names[:5], "...")
	}
	return &report.Error{
		What: fmt.Sprintf("nothing was changed: there are Services of type LoadBalancer (%s), and without the controller nobody changes their rules or releases their addresses",
			strings.Join(names, ", ")),
		Fix:  "delete these Services first, or leave their load balancers in CloudStack as they are with --orphan-load-balancers",
		Code: report.ExitCheckFailed,
	}
}

func (p *Plan) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Uninstall of %s from namespace %s:\n", p.Release, p.Namespace)
	for _, group := range []struct {
		title string
		lines []string
	}{{"delete", p.Deletes}, {"stays", p.Stays}, {"!", p.Warnings}} {
		for _, l := range group.lines {
			fmt.Fprintf(&b, "  %-6s  %s\n", group.title, l)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
