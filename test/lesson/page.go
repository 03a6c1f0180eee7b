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
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/ui/model"
	uipage "github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
	"github.com/csccm/csccm/pkg/ui/simpage"
	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
)

// page is the simulator's page with the Services and Nodes of both clusters.
type page struct {
	*simpage.Page
	// clusters are clients without client-go's rate limit: the page must not delay the lesson.
	clusters map[string]corev1client.CoreV1Interface
	story    atomic.Pointer[model.Story] // the chapter that is shown
}

// startPage serves the page and prints its address.
func (l *lesson) startPage(ctx context.Context) {
	p := &page{Page: simpage.New(l.cloud.Simulator), clusters: map[string]corev1client.CoreV1Interface{}}
	for name, c := range l.Clusters {
		config := rest.CopyConfig(c.REST)
		config.QPS = -1
		p.clusters[name] = must.Get(kubernetes.NewForConfig(config)).CoreV1()
	}
	s := must.Get(server.Listen(ctx,
		server.Options{Source: p, Actions: p, Files: uipage.Files(), Interval: simpage.Interval}))
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(serving) // the lesson continues without its page
	}()
	l.Defer(func() { cancel(); <-done })
	l.page = p
	l.Printf("\nBoth clusters and their cloud on one page (the address is for one visit):\n%s\n", s.URL())
}

// tell shows the chapter on the page: its text, its commands and what was seen; after the last chapter, also what to
// try next.
func (p *page) tell(l *console.Player, number int, ended bool) {
	c := l.Script.Chapters[number-1]
	s := &model.Story{Title: fmt.Sprintf("%d. %s", number, c.Title), Text: []string{c.Intro}, Look: l.Looked}
	s.Sides = []string{console.Without, console.With}
	if ended && number == len(l.Script.Chapters) {
		s.Text = append(s.Text, l.Script.Next)
	}
	for _, t := range c.Try {
		s.Try = append(s.Try, t.Do)
	}
	p.story.Store(s)
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

func initialises(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider }

// addCluster adds a cluster to a snapshot of its cloud: its Services with links to their addresses, and its Nodes with
// links to their VMs. It changes nothing but s.
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
		o.Commands = []string{fmt.Sprintf("kubectl --kubeconfig $%s describe %s %s", strings.ToUpper(cluster), o.Kind,
			o.Name)}
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

		o := model.Object{
			Kind:   model.KindService,
			Name:   svc.Name,
			Label:  strings.Join(ports, " "),
			Health: model.HealthOK,
		}

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
		o := model.Object{Kind: model.KindNode, Name: n.Name, Health: model.HealthOK}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				o.Label = a.Address
			}
		}
		switch {
		case !node.Ready(n):
			o.Health, o.Why = model.HealthError, []string{"the Node is not ready"}
		case slices.ContainsFunc(n.Spec.Taints, initialises):
			o.Health, o.Why = model.HealthPending, []string{"no cloud controller manager has initialised the Node"}
		}
		add(o, "provider ID", n.Spec.ProviderID)
	}
}
