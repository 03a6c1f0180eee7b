// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// ClusterOptions configures a cluster of real nodes.
type ClusterOptions struct {
	Programs     string // the folder of the control plane's programs
	NodePrograms string // the folder of kubelet and kube-proxy
	// Images are the image archives that every node imports.
	Images []string
	// Gateway is the router's address in the nodes' network, where the API server listens.
	Gateway netip.Prefix
	// Public are ranges whose addresses are local addresses of the sandbox.
	Public []netip.Prefix
}

// Cluster is a control plane and real nodes in a sandbox. It ends with the sandbox.
type Cluster struct {
	*plane.Plane
	Client kubernetes.Interface

	o     ClusterOptions
	nodes sync.Map // *Node by name
}

// nodeGrace is the time for which a node may miss heartbeats before it is marked not ready. Nodes report every 2 s.
const nodeGrace = 16 * time.Second

// StartCluster starts a control plane without nodes. The process must run in a sandbox.
func StartCluster(ctx context.Context, o ClusterOptions) *Cluster {
	dir, _ := Inside()
	c := &Cluster{o: o}
	newNetwork(ctx, o.Gateway, o.Public...)
	c.Plane = must.Get(plane.Start(ctx, plane.Options{
		Programs: o.Programs, Dir: dir, Host: o.Gateway.Addr().String(), NodeGrace: nodeGrace,
	}))
	c.Client = must.Get(kubernetes.NewForConfig(must.Get(c.AdminConfig())))
	return c
}

// node returns a node that has not started.
func (c *Cluster) node(o NodeOptions) *Node {
	dir, _ := Inside()
	n := &Node{
		NodeOptions: o,
		cluster:     c,
		dir:         filepath.Join(dir, o.Name),
		cgroup:      filepath.Join(filepath.Base(dir), o.Name),
	}
	c.nodes.Store(o.Name, n)
	return n
}

// Join starts a node and waits until it is ready.
func (c *Cluster) Join(ctx context.Context, o NodeOptions) *Node {
	n := c.node(o)
	n.start(ctx)
	err := testenv.Wait(ctx, 5*time.Minute, "node "+o.Name+" to be ready", func(ctx context.Context) error {
		has := must.Get(c.Client.CoreV1().Nodes().Get(ctx, o.Name, metav1.GetOptions{})).Status.Conditions
		must.Be(slices.ContainsFunc(has, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}), "its conditions are %+v", has)
		return nil
	})
	if err != nil {
		must.OK(fmt.Errorf("%w\n%s", err, n.logs()))
	}
	return n
}

// Node returns the node with a name, which must have joined.
func (c *Cluster) Node(name string) *Node {
	n, _ := c.nodes.Load(name)
	return n.(*Node) //nolint:forcetypeassert // nothing else is stored
}
