// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
)

// ClusterOptions configures a cluster.
type ClusterOptions struct {
	Plane plane.Options
	// Controller is the path of the program that runs in Pods with the controller's image.
	Controller string
	// Images are the programs of additional images, as in processnode.Options.
	Images map[string]string
	// Heartbeat is the period of the nodes' lease renewals; 0 means 2 s.
	Heartbeat time.Duration
}

// Cluster is a control plane with process nodes.
type Cluster struct {
	*plane.Plane
	Client kubernetes.Interface
	REST   *rest.Config

	o     ClusterOptions
	mu    sync.Mutex
	nodes []*processnode.Node
}

const (
	defaultHeartbeat = 2 * time.Second
	rolePrefix       = "node-role.kubernetes.io/"
)

// ExampleNodes returns nodes for the VMs of the simulator's example world: one of the control plane, with kubeadm's
// labels, and two workers.
func ExampleNodes() []processnode.Options {
	return []processnode.Options{
		{
			Name:    "demo-cp-1",
			Address: "10.1.1.11",
			Labels:  map[string]string{rolePrefix + "control-plane": "", corev1.LabelNodeExcludeBalancers: ""},
		},
		{Name: "demo-worker-1", Address: "10.1.1.21"},
		{Name: "demo-worker-2", Address: "10.1.1.22"},
	}
}

// StartCluster starts a control plane without nodes.
func StartCluster(ctx context.Context, o ClusterOptions) (_ *Cluster, err error) {
	defer must.Return(&err)
	p := must.Get(plane.Start(ctx, o.Plane))
	c, err := NewCluster(p, o)
	if err != nil {
		p.Stop()
	}
	return c, err
}

// NewCluster returns a cluster without nodes on a running control plane.
func NewCluster(p *plane.Plane, o ClusterOptions) (_ *Cluster, err error) {
	defer must.Return(&err)
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	c := &Cluster{Plane: p, REST: must.Get(p.AdminConfig()), o: o}
	c.Client, err = kubernetes.NewForConfig(c.REST)
	return c, err
}

// Join starts a node and sets the options that all nodes of the cluster share. As with kubeadm, the admin sets role
// labels afterwards, because NodeRestriction does not allow kubelets to set them.
func (c *Cluster) Join(ctx context.Context, o processnode.Options) (_ *processnode.Node, err error) {
	defer must.Return(&err)
	o.ControlPlane, o.Heartbeat = c.Plane, c.o.Heartbeat
	o.Images = map[string]string{ControllerImage: c.o.Controller}
	maps.Copy(o.Images, c.o.Images)
	roles, own := map[string]string{}, map[string]string{}
	for k, v := range o.Labels {
		if strings.HasPrefix(k, rolePrefix) {
			roles[k] = v
		} else {
			own[k] = v
		}
	}

	o.Labels = own
	n := must.Get(processnode.Start(ctx, o))
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	if len(roles) == 0 {
		return n, nil
	}

	patch := must.Get(json.Marshal(map[string]any{"metadata": map[string]any{"labels": roles}}))
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return n, err
}

// Nodes returns the nodes that have joined.
func (c *Cluster) Nodes() []*processnode.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*processnode.Node{}, c.nodes...)
}

// PodLog returns the path of a Pod's log on any node.
func (c *Cluster) PodLog(namespace, pod string) (string, bool) {
	for _, n := range c.Nodes() {
		if path, ok := n.PodLog(namespace, pod); ok {
			return path, true
		}
	}
	return "", false
}

// Stop stops the nodes with their Pods, then the control plane.
func (c *Cluster) Stop() {
	c.StopNodes()
	c.Plane.Stop()
}

// StopNodes stops the nodes with their Pods.
func (c *Cluster) StopNodes() {
	var wg sync.WaitGroup
	for _, n := range c.Nodes() {
		wg.Go(n.Stop)
	}
	wg.Wait()
}
