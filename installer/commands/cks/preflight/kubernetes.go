// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// NodesOf returns the Nodes with the VMs of the cluster that they are: CKS names Nodes as their VMs.
func NodesOf(nodes []corev1.Node, k *cloudstack.KubernetesCluster) []Node {
	var out []Node
	for i := range nodes {
		n := Node{Name: nodes[i].Name}
		for _, vm := range k.Nodes {
			if strings.EqualFold(vm.Name, n.Name) {
				n.VMID = vm.ID
			}
		}
		n.Why = "its kubelet has not reported yet"
		for _, c := range nodes[i].Status.Conditions {
			if c.Type == corev1.NodeReady {
				n.Ready, n.Why = c.Status == corev1.ConditionTrue, c.Message
			}
		}
		if n.Ready {
			n.Why = ""
		}
		out = append(out, n)
	}
	return out
}

// ServicesOf returns those of type LoadBalancer.
func ServicesOf(services []corev1.Service) []Service {
	var out []Service
	for i := range services {
		s := &services[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		e := Service{Namespace: s.Namespace, Name: s.Name, UID: string(s.UID)}
		for _, in := range s.Status.LoadBalancer.Ingress {
			if in.IP != "" {
				e.Addresses = append(e.Addresses, in.IP)
			}
		}
		out = append(out, e)
	}
	return out
}

// TemplatesOf returns the ids of the templates that the cluster's nodes are made from, as far as CloudStack shows them.
func TemplatesOf(k *cloudstack.KubernetesCluster) []string {
	var ids []string
	add := func(id string) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	add(k.TemplateID)
	for _, vm := range k.Nodes {
		if !vm.Etcd && !vm.External {
			add(vm.TemplateID)
		}
	}
	return ids
}

// ClusterOf returns the cluster that has any of the VMs, by their ids; nil for none.
func ClusterOf(clusters []cloudstack.KubernetesCluster, vms map[string]bool) *cloudstack.KubernetesCluster {
	i := slices.IndexFunc(clusters, func(k cloudstack.KubernetesCluster) bool {
		return slices.ContainsFunc(k.VMs, func(id string) bool { return vms[id] })
	})
	if i < 0 {
		return nil
	}
	return &clusters[i]
}
