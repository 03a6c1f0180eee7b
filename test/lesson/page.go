// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/ui/model"
	uipage "github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
	"github.com/csccm/csccm/pkg/ui/simpage"
)

// page is the simulator's page with the Services and Nodes of both clusters.
type page struct {
	*simpage.Page
	clusters []cluster
	story    atomic.Pointer[model.Story] // the chapter that is shown
}

// cluster is one of the two clusters, read without client-go's rate limit: the page must not delay the lesson.
type cluster struct {
	name string
	core corev1client.CoreV1Interface
}

// startPage serves the page and prints its address.
func (l *lesson) startPage(ctx context.Context) error {
	source := &page{Page: simpage.New(l.cloud.Simulator)}
	l.page = source
	for _, s := range []*side{l.without, l.with} {
		config := rest.CopyConfig(s.cluster.REST)
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		source.clusters = append(source.clusters, cluster{s.name, client.CoreV1()})
	}
	s, err := server.Listen(ctx, server.Options{Source: source, Actions: source, Files: uipage.Files(), Interval: simpage.Interval})
	if err != nil {
		return err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(serving) // the lesson goes on without its page
	}()
	l.stopPage = func() { cancel(); <-done }
	_, _ = fmt.Fprintf(l.Out, "\nBoth clusters and their cloud on one page (the address is for one visit):\n%s\n", s.URL())
	return nil
}

// tell shows the chapter on the page: its text and its commands and, at its end, what was seen.
func (l *lesson) tell(number int, ended bool) {
	if l.page == nil {
		return
	}
	s := &model.Story{Title: l.chapter.Heading(number), Text: []string{l.chapter.Intro}, Sides: []string{withoutName, withName}}
	for _, c := range l.chapter.Look {
		if ended {
			s.Look = append(s.Look, c.Text)
		}
	}
	for _, t := range l.chapter.Try {
		s.Try = append(s.Try, t.Line)
	}
	l.page.story.Store(s)
}

// Snapshot implements server.Source.
func (p *page) Snapshot(ctx context.Context) (model.Snapshot, error) {
	s, err := p.Page.Snapshot(ctx)
	if err != nil {
		return s, err
	}
	s.Title = "Two clusters in one simulated CloudStack: without and with the controller"
	s.Story = p.story.Load()
	for _, c := range p.clusters {
		state, err := c.read(ctx)
		if err != nil {
			s.Missing = append(s.Missing, model.Missing{Part: "objects", Reason: fmt.Sprintf("cluster %q: %v", c.name, err)})
			continue
		}
		addCluster(&s, state)
	}
	slices.SortFunc(s.Objects, func(a, b model.Object) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Links, func(a, b model.Link) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), strings.Compare(a.Label, b.Label))
	})
	slices.SortFunc(s.Nodes, func(a, b model.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(s.Timeline, func(a, b model.Entry) int { return b.At.Compare(a.At) })
	return s, nil
}

// clusterState is what the page shows of a cluster.
type clusterState struct {
	name, kubeconfig string
	services         []corev1.Service
	nodes            []corev1.Node
	events           []corev1.Event
}

func (c cluster) read(ctx context.Context) (clusterState, error) {
	state := clusterState{name: c.name, kubeconfig: "$" + strings.ToUpper(c.name)}
	services, err := c.core.Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return state, err
	}
	events, err := c.core.Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return state, err
	}
	nodes, err := c.core.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return state, err
	}
	state.services, state.events, state.nodes = services.Items, events.Items, nodes.Items
	return state, nil
}

// addCluster adds a cluster to a snapshot of its cloud. It is pure.
func addCluster(s *model.Snapshot, c clusterState) {
	byName, byID := map[string]string{}, map[string]model.Object{}
	for _, o := range s.Objects {
		if o.Kind == model.KindAddress {
			byName[o.Name] = o.ID
		}
		if o.Kind == model.KindVM {
			byID[strings.TrimPrefix(o.ID, string(model.KindVM)+"/")] = o
		}
	}
	exists := map[string]bool{}
	for i := range c.services {
		if svc := &c.services[i]; svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			o, ip := serviceObject(c, svc)
			s.Objects, exists[o.ID] = append(s.Objects, o), true
			if to := byName[ip]; to != "" {
				s.Links = append(s.Links, model.Link{From: o.ID, To: to})
			}
		}
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		_, id, _ := strings.Cut(n.Spec.ProviderID, "://")
		vm, found := byID[id]
		o, row := nodeObject(c, n, vm)
		s.Objects, s.Nodes, exists[o.ID] = append(s.Objects, o), append(s.Nodes, row), true
		if found {
			s.Links = append(s.Links, model.Link{From: o.ID, To: vm.ID})
		}
	}
	for i := range c.events {
		e := &c.events[i]
		entry := model.Entry{
			At: e.LastTimestamp.Time, Kind: "event", Reason: e.Reason, Message: c.name + ": " + e.InvolvedObject.Name + ": " + e.Message,
			Warning: e.Type == corev1.EventTypeWarning, Count: int(e.Count),
		}
		if id := c.id(strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name); exists[id] {
			entry.Object = id
		}
		if !entry.At.IsZero() {
			s.Timeline = append(s.Timeline, entry)
		}
	}
}

// id returns the ID of an object of a cluster, which differs between the clusters.
func (c clusterState) id(kind, name string) string { return kind + "/" + c.name + "/" + name }

func serviceObject(c clusterState, svc *corev1.Service) (o model.Object, ip string) {
	o = model.Object{
		ID: c.id(string(model.KindService), svc.Name), Kind: model.KindService, Name: svc.Name, Group: c.name, Health: model.HealthOK,
		Commands: []string{fmt.Sprintf("kubectl --kubeconfig %s -n %s describe service %s", c.kubeconfig, svc.Namespace, svc.Name)},
	}
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		ip = svc.Status.LoadBalancer.Ingress[0].IP
	} else {
		o.Health, o.Why = model.HealthPending, []string{"the Service has no address"}
	}
	var ports []string
	for _, p := range svc.Spec.Ports {
		ports = append(ports, fmt.Sprint(p.Port))
	}
	o.Label = strings.Join(ports, " ")
	o.Facts = []model.Fact{{Name: "cluster", Value: c.name}, {Name: "address", Value: cmp.Or(ip, "none")}, {Name: "ports", Value: o.Label}}
	return o, ip
}

func nodeObject(c clusterState, n *corev1.Node, vm model.Object) (model.Object, model.Node) {
	row := model.Node{
		Name: n.Name, Kubelet: "external", Evidence: "the lesson starts all nodes so", ProviderID: n.Spec.ProviderID, Ready: node.Ready(n), Health: model.HealthOK,
	}
	if vm.ID != "" {
		row.VMID, row.CloudStack = strings.TrimPrefix(vm.ID, string(model.KindVM)+"/"), strings.Fields(vm.Label)
	}
	for _, f := range vm.Facts {
		if f.Name == "state" {
			row.VMState = f.Value
		}
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			row.Kubernetes = append(row.Kubernetes, a.Address)
		}
	}
	switch {
	case !row.Ready:
		row.Health, row.Why = model.HealthError, []string{"the Node is not ready"}
	case tainted(n):
		row.Health, row.Why = model.HealthPending, []string{"no cloud controller manager has initialised the Node"}
	}
	return model.Object{
		ID: c.id(string(model.KindNode), n.Name), Kind: model.KindNode, Name: n.Name, Group: c.name, Health: row.Health, Why: row.Why,
		Label:    strings.Join(row.Kubernetes, " "),
		Facts:    []model.Fact{{Name: "cluster", Value: c.name}, {Name: "provider ID", Value: cmp.Or(n.Spec.ProviderID, "none")}},
		Commands: []string{fmt.Sprintf("kubectl --kubeconfig %s describe node %s", c.kubeconfig, n.Name)},
	}, row
}
