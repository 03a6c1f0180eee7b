// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan shows what the controller would do in CloudStack for the Services of a live cluster. It is read-only.
package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
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
}

// Settings are the controller's settings that affect the plan.
type Settings struct {
	ClusterID string `json:"clusterID"`
	Policy    string `json:"policy"`
	// From names the source of the settings.
	From string `json:"from"`
}

// Service is the plan for one Service.
type Service struct {
	loadbalancer.Preview
	// Address is the address in the Service's status.
	Address string   `json:"address,omitempty"`
	Actions []Action `json:"actions"`
	// Error is the read error because of which there is no plan.
	Error string `json:"error,omitempty"`

	cause error // the error in Error
}

// Action is an action that the controller would do for a Service.
type Action struct {
	plan.Step
	// Held is true if the controller's policy does not allow the action.
	Held bool
}

// Text is the action for a person.
func (a *Action) Text() string {
	if a.Held {
		return a.Label() + " (held back by the policy)"
	}
	return a.Label()
}

// MarshalJSON adds heldByPolicy to the fields of the action.
func (a Action) MarshalJSON() ([]byte, error) {
	out, err := json.Marshal(a.Step)
	if err == nil && a.Held {
		out = append(out[:len(out)-1], `,"heldByPolicy":true}`...)
	}
	return out, err
}

// Summary counts Services and their actions.
type Summary struct {
	Services int `json:"services"`
	Settled  int `json:"settled"` // without actions
	Changing int `json:"changing"`
	Refused  int `json:"refused"`
	Failed   int `json:"failed"` // no plan because of an error
	Actions  int `json:"actions"`
	Held     int `json:"heldByPolicy"`
}

// ToDo reports whether CloudStack differs from what the Services specify: there are actions, or refusals that somebody
// has to resolve.
func (r *Report) ToDo() bool { return r.Summary.Changing+r.Summary.Refused > 0 }

// Previewer plans one Service; *service.Previewer implements it.
type Previewer interface {
	Service(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error)
}

// Make plans the selected Services that the controller handles. An error for one Service is in its plan. Make returns
// an error only if the cluster cannot be read or if a name selects nothing.
func Make(ctx context.Context, kube kubernetes.Interface, p Previewer, settings Settings, selected Selection) (*Report, error) {
	var err error
	list := cluster.List(ctx, &err, kube.CoreV1().Services(metav1.NamespaceAll).List)
	nodeList := cluster.List(ctx, &err, kube.CoreV1().Nodes().List)
	if err != nil {
		return nil, err
	}
	services, err := selected.Of(list.Items)
	if err != nil {
		return nil, err
	}
	nodes := make([]*corev1.Node, 0, len(nodeList.Items))
	for i := range nodeList.Items {
		nodes = append(nodes, &nodeList.Items[i])
	}
	return Of(ctx, p, settings, services, nodes)
}

// Of plans these Services with these Nodes, all of the cluster. It returns an error only if ctx ends.
func Of(ctx context.Context, p Previewer, settings Settings, services []*corev1.Service, nodes []*corev1.Node) (*Report, error) {
	r := &Report{SchemaVersion: SchemaVersion, Settings: settings, Services: make([]*Service, len(services))}
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
	for i, svc := range services {
		preview := r.Services[i].Preview
		if preview.Refusal == nil || !helpers.HasLBFinalizer(svc) {
			continue
		}
		// A refused Service gives up ports that it no longer has. After all others: p then takes it for one without a load balancer.
		gone := svc.DeepCopy()
		gone.Spec.Type = corev1.ServiceTypeClusterIP
		has, err := p.Service(ctx, gone, nodes)
		if has.Actual != nil && has.Actual.OtherCluster == "" {
			preview.Actions = plan.FormerPorts(loadbalancer.ServiceOf(svc), *has.Actual)
		}
		r.Services[i] = newService(svc, preview, plan.Policy(settings.Policy), err)
	}
	r.Summary = sum(r.Services)
	return r, ctx.Err()
}

func newService(svc *corev1.Service, preview loadbalancer.Preview, policy plan.Policy, err error) *Service {
	out := &Service{Preview: preview, Actions: make([]Action, len(preview.Actions))}
	for i, allowed := range policy.Allows(preview.Actions) {
		out.Actions[i] = Action{Step: preview.Actions[i], Held: !allowed}
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

// Cause returns the error of the first Service that could not be planned, or nil.
func (r *Report) Cause() error {
	for _, s := range r.Services {
		if s.cause != nil {
			return s.cause
		}
	}
	return nil
}

func sum(services []*Service) Summary {
	s := Summary{Services: len(services)}
	for _, svc := range services {
		s.Actions += len(svc.Actions)
		for i := range svc.Actions {
			if svc.Actions[i].Held {
				s.Held++
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
	return s
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

// Of returns the selected Services that the controller handles, sorted by namespace and name.
func (s Selection) Of(all []corev1.Service) ([]*corev1.Service, error) {
	byName := map[string]*corev1.Service{}
	var concerned []*corev1.Service
	for i := range all {
		svc := &all[i]
		byName[svc.Namespace+"/"+svc.Name] = svc
		if service.Handles(svc) {
			concerned = append(concerned, svc)
		}
	}
	for _, name := range s {
		svc, found := byName[name]
		switch {
		case strings.HasSuffix(name, "/"):
		case !found:
			return nil, report.Remedied(fmt.Errorf("%s is no Service of the cluster", name), "kubectl get services --all-namespaces")
		case !service.Handles(svc):
			return nil, fmt.Errorf("%s is not handled by the controller: its type is not LoadBalancer, or it has a loadBalancerClass", name)
		}
	}
	wanted := func(svc *corev1.Service) bool {
		return len(s) == 0 || slices.Contains(s, svc.Namespace+"/"+svc.Name) || slices.Contains(s, svc.Namespace+"/")
	}
	concerned = slices.DeleteFunc(concerned, func(svc *corev1.Service) bool { return !wanted(svc) })
	slices.SortFunc(concerned, func(a, b *corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return concerned, nil
}
