// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
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
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/lesson/chapters"
)

// page is the simulator's page with the Services and Nodes of both clusters.
type page struct {
	*simpage.Page
	clusters map[string]corev1client.CoreV1Interface // without client-go's rate limit: the page must not delay the lesson
	story    atomic.Pointer[model.Story]             // the chapter that is shown
	stop     func()
}

// startPage serves the page and prints its address.
func (l *lesson) startPage(ctx context.Context) {
	p := &page{Page: simpage.New(l.cloud.Simulator), clusters: map[string]corev1client.CoreV1Interface{}}
	for _, s := range []*side{l.without, l.with} {
		config := rest.CopyConfig(s.cluster.REST)
		config.QPS = -1
		p.clusters[s.name] = must.Get(kubernetes.NewForConfig(config)).CoreV1()
	}
	s := must.Get(server.Listen(ctx, server.Options{Source: p, Actions: p, Files: uipage.Files(), Interval: simpage.Interval}))
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(serving) // the lesson goes on without its page
	}()
	p.stop = func() { cancel(); <-done }
	l.page = p
	_, _ = fmt.Fprintf(l.Out, "\nBoth clusters and their cloud on one page (the address is for one visit):\n%s\n", s.URL())
}

// tell shows the chapter on the page: its text and its commands and, at its end, what was seen; at the last end, what to try next.
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
	if ended && number == len(chapters.Text.Chapters) {
		s.Text = append(s.Text, chapters.Text.Next)
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
	for name, core := range p.clusters {
		services, err := core.Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return s, fmt.Errorf("cluster %q: %w", name, err)
		}
		nodes, err := core.Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return s, fmt.Errorf("cluster %q: %w", name, err)
		}
		addCluster(&s, name, services.Items, nodes.Items)
	}
	return s.Sorted(), nil
}

// addCluster adds a cluster to a snapshot of its cloud: its Services with links to their addresses, and its Nodes with links to their VMs.
// It is pure.
func addCluster(s *model.Snapshot, cluster string, services []corev1.Service, nodes []corev1.Node) {
	inCloud := map[string]string{} // IDs by address and by provider ID
	for i := range s.Objects {
		switch o := &s.Objects[i]; o.Kind {
		case model.KindAddress:
			inCloud[o.Name] = o.ID
		case model.KindVM:
			inCloud[node.ProviderID(node.FormUpstream, strings.TrimPrefix(o.ID, string(model.KindVM)+"/"))] = o.ID
		default: // has no object in Kubernetes
		}
	}
	add := func(o model.Object, fact, value string) {
		o.ID, o.Group = fmt.Sprintf("%s/%s/%s", o.Kind, cluster, o.Name), cluster
		o.Facts = []model.Fact{{Name: "cluster", Value: cluster}, {Name: fact, Value: cmp.Or(value, "none")}}
		o.Commands = []string{fmt.Sprintf("kubectl --kubeconfig $%s describe %s %s", strings.ToUpper(cluster), o.Kind, o.Name)}
		s.Objects = append(s.Objects, o)
		if to := inCloud[value]; to != "" {
			s.Links = append(s.Links, model.Link{From: o.ID, To: to})
		}
	}
	for i := range services {
		svc := &services[i]
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		var ports []string
		for _, p := range svc.Spec.Ports {
			ports = append(ports, fmt.Sprint(p.Port))
		}
		o := model.Object{Kind: model.KindService, Name: svc.Name, Label: strings.Join(ports, " "), Health: model.HealthOK}
		ip := ""
		if in := svc.Status.LoadBalancer.Ingress; len(in) > 0 {
			ip = in[0].IP
		} else {
			o.Health, o.Why = model.HealthPending, []string{"the Service has no address"}
		}
		add(o, "address", ip)
	}
	for i := range nodes {
		n := &nodes[i]
		o := model.Object{Kind: model.KindNode, Name: n.Name, Label: internalIP(n), Health: model.HealthOK}
		switch {
		case !node.Ready(n):
			o.Health, o.Why = model.HealthError, []string{"the Node is not ready"}
		case tainted(n):
			o.Health, o.Why = model.HealthPending, []string{"no cloud controller manager has initialised the Node"}
		}
		add(o, "provider ID", n.Spec.ProviderID)
	}
}
