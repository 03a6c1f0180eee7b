// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"os"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/processnode"
)

// cksSecret is the name of the Secret that CloudStack creates in its clusters.
const cksSecret = "cloudstack-secret" // #nosec G101 -- a name

// CKS simulates what CloudStack Kubernetes Service installs inside the VMs of a cluster: a process node for each VM,
// whose kubelet runs without --cloud-provider=external, kubeadm's ConfigMap, and the Secret with the keys of
// CloudStack's own user. It also deploys Apache's provider, unless the name of a Pod contains
// "cloud-controller-manager". It implements simulator.ClusterInside for one cluster.
type CKS struct {
	Cluster *Cluster

	mu    sync.Mutex
	nodes map[string]*processnode.Node
}

// Start installs the control plane's objects and the nodes, and returns the kubeconfig of the cluster's administrator.
func (k *CKS) Start(ctx context.Context, c *simulator.InsideCluster) (_ string, err error) {
	defer must.Return(&err)
	core := k.Cluster.Client.CoreV1()
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "kubernetesVersion: v" + c.Version + "\n"},
	}
	_, err = core.ConfigMaps(metav1.NamespaceSystem).Create(ctx, config, metav1.CreateOptions{})
	must.OK(unless(apierrors.IsAlreadyExists, err))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: cksSecret},
		StringData: map[string]string{"cloud-config": c.Provider},
	}
	_, err = core.Secrets(metav1.NamespaceSystem).Create(ctx, secret, metav1.CreateOptions{})
	must.OK(unless(apierrors.IsAlreadyExists, err)) // CKS keeps an existing Secret
	must.OK(k.Join(ctx, c, c.Nodes))
	kubeconfig, err := os.ReadFile(k.Cluster.Kubeconfig)
	return string(kubeconfig), err
}

// Join starts the nodes of VMs.
func (k *CKS) Join(ctx context.Context, c *simulator.InsideCluster, nodes []simulator.InsideNode) error {
	for _, vm := range nodes {
		if vm.Etcd {
			continue
		}
		if err := k.boot(ctx, vm, c.Version); err != nil {
			return err
		}
	}
	return k.provider(ctx)
}

func (k *CKS) boot(ctx context.Context, vm simulator.InsideNode, version string) (err error) {
	defer must.Return(&err)
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.nodes[vm.Name]; old != nil {
		old.Stop()
	}
	o := processnode.Options{Name: vm.Name, Address: vm.Address, NotExternal: true, KubeletVersion: "v" + version}
	if vm.Control {
		o.Labels = map[string]string{rolePrefix + "control-plane": "", corev1.LabelNodeExcludeBalancers: ""}
	}
	n := must.Get(k.Cluster.Join(context.WithoutCancel(ctx), o))
	if k.nodes == nil {
		k.nodes = map[string]*processnode.Node{}
	}
	k.nodes[vm.Name] = n
	return nil
}

// Leave deletes the Node of a VM that CloudStack is about to remove.
func (k *CKS) Leave(ctx context.Context, _ *simulator.InsideCluster, vm simulator.InsideNode) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.nodes[vm.Name]; n != nil {
		n.Stop()
		delete(k.nodes, vm.Name)
	}
	return unless(apierrors.IsNotFound, k.Cluster.Client.CoreV1().Nodes().Delete(ctx, vm.Name, metav1.DeleteOptions{}))
}

// Upgrade restarts a kubelet with another version.
func (k *CKS) Upgrade(ctx context.Context, _ *simulator.InsideCluster, vm simulator.InsideNode, version string) error {
	if err := k.boot(ctx, vm, version); err != nil {
		return err
	}
	return k.provider(ctx)
}

// Delete stops all nodes.
func (k *CKS) Delete(context.Context, *simulator.InsideCluster) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, n := range k.nodes {
		n.Stop()
		delete(k.nodes, name)
	}
	return nil
}

// provider deploys Apache's provider as CKS does: only if no line of "kubectl get pods -A" contains
// cloud-controller-manager.
func (k *CKS) provider(ctx context.Context) (err error) {
	defer must.Return(&err)
	pods := must.Get(k.Cluster.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{}))
	for _, it := range pods.Items {
		if strings.Contains(it.Namespace+" "+it.Name, PredecessorName) {
			return nil
		}
	}
	apache := Predecessor{Image: ControllerImage, Secret: cksSecret, Port: "10268"}
	return unless(apierrors.IsAlreadyExists, apache.Create(ctx, k.Cluster.Client))
}

// unless returns the error, or nil if the error is of a kind.
func unless(kind func(error) bool, err error) error {
	if kind(err) {
		return nil
	}
	return err
}
