// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan shows what the controller would do in CloudStack for the Services of a live cluster. It is read-only.
package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/service"
)

// workers is the number of Services that are planned at the same time, as in the controller.
const workers = 4

// SchemaVersion is the version of Report's JSON format.
const SchemaVersion = 1

// Report is the plan for all selected Services.
type Report struct {
	SchemaVersion int        `json:"schemaVersion"`
	Settings      Settings   `json:"settings"`
	Services      []*Service `json:"services"` // sorted by name
	Summary       Summary    `json:"summary"`

	Cause error `json:"-"` // the first error of a Service that could not be planned
}

// Settings are the controller's settings that affect the plan.
type Settings struct {
	ClusterID string `json:"clusterID"`
	Policy    string `json:"policy"`
	// From names the source of the settings.
	From string `json:"from"`
	// Classes are the load balancer classes that the controller serves.
	Classes service.Classes `json:"-"`
}

// Service is the plan for one Service.
type Service struct {
	loadbalancer.Preview
	// Address is the address in the Service's status.
	Address string `json:"address,omitempty"`
	// Error is the read error that prevented the plan.
	Error string `json:"error,omitempty"`

	cause error // the error in Error
}

// Text returns an action as text.
func Text(a *plan.Step) string {
	if a.BlockedByPolicy {
		return a.Label() + " (blocked by the policy)"
	}
	return a.Label()
}

// Summary counts Services and their actions.
type Summary struct {
	Services        int `json:"services"`
	Settled         int `json:"settled"` // without actions
	Changing        int `json:"changing"`
	Refused         int `json:"refused"`
	Failed          int `json:"failed"` // no plan because of an error
	Actions         int `json:"actions"`
	BlockedByPolicy int `json:"heldByPolicy"`
}

// ToDo reports whether CloudStack differs from what the Services specify: there are actions, or refusals that a user
// has to resolve.
func (r *Report) ToDo() bool { return r.Summary.Changing+r.Summary.Refused > 0 }

// Previewer plans one Service; *service.Previewer implements it.
type Previewer interface {
	Service(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error)
}

// Of plans these Services with all Nodes of the cluster. An error for one Service is in its plan; Of returns an error
// only if ctx ends.
func Of(
	ctx context.Context, p Previewer, settings Settings, services []*corev1.Service, all []corev1.Node,
) (*Report, error) {
	r := &Report{SchemaVersion: SchemaVersion, Settings: settings, Services: make([]*Service, len(services))}
	nodes := make([]*corev1.Node, len(all))
	for i := range all {
		nodes[i] = &all[i]
	}

	var group errgroup.Group
	group.SetLimit(workers)
	for i, svc := range services {
		group.Go(func() error {
			preview, err := p.Service(ctx, svc, nodes)
			r.Services[i] = newService(svc, preview, plan.Policy(settings.Policy), err)
			return nil
		})
	}

	_ = group.Wait() // errors are in the plans of their Services
	r.sum()
	return r, ctx.Err()
}

func newService(svc *corev1.Service, preview loadbalancer.Preview, policy plan.Policy, err error) *Service {
	out := &Service{Preview: preview}
	out.Actions = append([]plan.Step{}, preview.Actions...)
	for i, allowed := range policy.Allows(out.Actions) {
		out.Actions[i].BlockedByPolicy = !allowed
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if out.Address = cmp.Or(in.IP, in.Hostname); out.Address != "" {
			break
		}
	}
	if err != nil {
		out.Error, out.cause = err.Error(), err
	}
	return out
}

func (r *Report) sum() {
	s := &r.Summary
	for _, svc := range r.Services {
		r.Cause = cmp.Or(r.Cause, svc.cause)
		s.Services++
		s.Actions += len(svc.Actions)
		for _, action := range svc.Actions {
			if action.BlockedByPolicy {
				s.BlockedByPolicy++
			}
		}

		switch {
		case svc.Error != "":
			s.Failed++
		case svc.Refusal != nil:
			s.Refused++
		case svc.todo():
			s.Changing++
		default:
			s.Settled++
		}
	}
}

// todo reports whether the controller would do anything for the Service. That includes looking up the outcome of a
// pending address acquisition.
func (s *Service) todo() bool { return len(s.Actions) > 0 || s.Pending > 0 }

// Selection holds the names from the command line.
type Selection []string

// Select parses names of the form NAMESPACE/NAME, or NAMESPACE/ for all Services of a namespace. No name means all
// Services.
func Select(names []string) (Selection, error) {
	for _, n := range names {
		if namespace, name, ok := strings.Cut(n, "/"); !ok || namespace == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%s is not of the form NAMESPACE/NAME, or NAMESPACE/ for all of a namespace", n)
		}
	}
	return names, nil
}

// Of returns the selected Services that a controller of these classes handles, sorted by namespace and name.
func (s Selection) Of(all []corev1.Service, classes service.Classes) ([]*corev1.Service, error) {
	var concerned []*corev1.Service
	missing := sets.New(s...)
	for _, svc := range all {
		name := rules.Key(&svc)
		named := missing.Has(name)
		handled := classes.Handles(&svc)
		switch {
		case !handled && named:
			return nil,
				fmt.Errorf("%s is not handled by the controller: its type is not LoadBalancer, or its "+
					"loadBalancerClass is not one that the controller serves", name)
		case handled && (len(s) == 0 || named || missing.Has(svc.Namespace+"/")):
			concerned = append(concerned, &svc)
		}
		missing.Delete(name)
	}

	for _, name := range sets.List(missing) {
		if !strings.HasSuffix(name, "/") {
			return nil, report.Errorf("kubectl get services --all-namespaces", "%s is not a Service of the "+
				"cluster", name)
		}
	}

	slices.SortFunc(concerned, func(a, b *corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return concerned, nil
}

// PreviewerOf returns a previewer that plans as the controller of a cluster's release does, and the settings of that
// controller. A clusterID that is not empty replaces the controller's own. change is that of provider.NewPreviewer.
func PreviewerOf(
	ctx context.Context, c *cluster.Cluster, cs *access.Cloud, release, clusterID string, change ...func(*service.Deps),
) (*service.Previewer, Settings, error) {
	options, from, err := Options(ctx, c.Kube, c.Namespace, release)
	if err != nil {
		return nil, Settings{}, err
	}

	options.ClusterID = cmp.Or(clusterID, options.ClusterID)
	previewer, err := provider.NewPreviewer(ctx, cs.Config, options, cs.Client.Client, c.Kube, change...)
	if err != nil {
		return nil, Settings{}, err
	}

	return previewer, Settings{
		ClusterID: previewer.ClusterID(),
		Policy:    options.Policy,
		From:      from,
		Classes:   options.LBClasses,
	}, nil
}

// OfCluster plans the selected Services with the settings of a cluster's controller; see PreviewerOf.
func OfCluster(
	ctx context.Context, c *cluster.Cluster, cs *access.Cloud, release, clusterID string, selected Selection,
	progress *report.Progress,
) (*Report, error) {
	progress.Step("asking CloudStack at %s", cs.Config.APIURL)
	if err := cs.Client.Answers(ctx); err != nil {
		progress.Fail("")
		return nil, err
	}

	previewer, settings, err := PreviewerOf(ctx, c, cs, release, clusterID)
	if err != nil {
		return nil, err
	}

	progress.Step("looking at the Services in CloudStack at %s", cs.Config.APIURL)
	all := cluster.Services(ctx, &err, c.Kube)
	nodes := cluster.Nodes(ctx, &err, c.Kube)
	if err != nil {
		return nil, err
	}

	services, err := selected.Of(all, settings.Classes)
	if err != nil {
		return nil, err
	}

	r, err := Of(ctx, previewer.Round(time.Time{}), settings, services, nodes)
	if err == nil {
		progress.Done("%d", len(services))
	}

	return r, err
}

// Options returns the settings of the controller of a Helm release, from the flags of its Deployment or DaemonSet, or
// the defaults if there is none. from names their source.
func Options(
	ctx context.Context, kube kubernetes.Interface, namespace, release string,
) (o provider.Options, from string, err error) {
	all, err := cluster.Workloads(ctx, kube, namespace, cluster.OfRelease(release))
	if err != nil {
		return o, "", err
	}

	for _, w := range all {
		for c := range w.Pod.Containers {
			args := cluster.Arguments(&w.Pod.Containers[c])
			_, named := cluster.Argument(args, "cloud-provider")
			_, configured := cluster.Argument(args, "cloud-config")
			if named || configured {
				o = provider.DefaultOptions()
				flags := pflag.NewFlagSet("cloudstack-ccm", pflag.ContinueOnError)
				flags.ParseErrorsAllowlist.UnknownFlags = true // such as those of the cloud-provider framework
				o.AddFlags(flags)
				flags.StringVar(&o.ClusterName, "cluster-name", "", "")
				if err := flags.Parse(args); err != nil {
					return o, "", fmt.Errorf("the controller's flags: %w", err)
				}
				return o, w.String(), nil
			}
		}
	}

	return provider.DefaultOptions(), "the defaults", nil
}
