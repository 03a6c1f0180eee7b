// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
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
	Binary string // the multi-call binary
	// Images are the image archives that every node imports.
	Images []string
	// Gateway is the router's address in the nodes' network, where the API server listens.
	Gateway netip.Prefix
	// Public are ranges whose addresses are local addresses of the sandbox.
	Public []netip.Prefix
}

// Cluster is a control plane and real nodes, in a sandbox.
type Cluster struct {
	*plane.Plane
	Client kubernetes.Interface

	o     ClusterOptions
	dir   string
	nodes sync.Map // *Node by name
}

// nodeGrace is how long a node may miss its heartbeats before it is marked not ready. Nodes report every 2 s.
const nodeGrace = 16 * time.Second

// StartCluster starts a control plane without nodes. The process must run in a sandbox.
func StartCluster(ctx context.Context, o ClusterOptions) (_ *Cluster, err error) {
	defer must.Return(&err)
	dir, inside := Inside()
	if !inside {
		return nil, fmt.Errorf("this process does not run in a sandbox, which real nodes need: call realnode.Enter first")
	}
	c := &Cluster{o: o, dir: dir}
	must.OK(newNetwork(ctx, o.Gateway, o.Public...))
	c.Plane = must.Get(plane.Start(ctx, plane.Options{
		Binary: o.Binary, Dir: dir, Host: o.Gateway.Addr().String(), NodeGrace: nodeGrace,
	}))
	c.Client, err = kubernetes.NewForConfig(must.Get(c.AdminConfig()))
	return c, err
}

// Join starts a node.
func (c *Cluster) Join(ctx context.Context, o NodeOptions) (*Node, error) {
	n := &Node{
		NodeOptions: o, Dir: filepath.Join(c.dir, o.Name), plane: c.Plane, gateway: c.o.Gateway, binary: c.o.Binary,
		images: c.o.Images, cgroup: filepath.Join(filepath.Base(c.dir), o.Name),
	}
	if _, twice := c.nodes.LoadOrStore(o.Name, n); twice {
		return nil, fmt.Errorf("node %s already exists", o.Name)
	}
	return n, n.boot(ctx)
}

// Node returns the node of a name, which has joined.
func (c *Cluster) Node(name string) *Node {
	n, _ := c.nodes.Load(name)
	return n.(*Node) //nolint:forcetypeassert // nothing else is stored
}

const readyLimit = 5 * time.Minute

// WaitReady waits until nodes are ready.
func (c *Cluster) WaitReady(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := testenv.Wait(ctx, readyLimit, "node "+name+" to be ready", func(ctx context.Context) error {
			node := must.Get(c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
		})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, c.Node(name).Logs(15))
		}
	}
	return nil
}

// Stop ends the nodes and the control plane. Their files and the network go with the sandbox.
func (c *Cluster) Stop() {
	for _, n := range c.nodes.Range {
		n.(*Node).PowerOff() //nolint:forcetypeassert // nothing else is stored
	}
	c.Plane.Stop()
}
