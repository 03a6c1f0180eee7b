// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// KubernetesCluster is a cluster of CloudStack Kubernetes Service.
type KubernetesCluster struct {
	ID, Name, State string
	// Type is CloudManaged, or ExternalManaged for one that CloudStack only lists.
	Type        string
	Version     string
	NetworkName string
	VMs         []string // ids
}

// ListKubernetesClusters lists the clusters of CloudStack Kubernetes Service in a project, or in the account for "".
// A server without the service, and a role that may not ask, are errors of KindNotPermitted.
func (c *Client) ListKubernetesClusters(ctx context.Context, projectID string) ([]KubernetesCluster, error) {
	type clusterJSON struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		State   string `json:"state"`
		Type    string `json:"clustertype"`
		Version string `json:"kubernetesversionname"`
		Network string `json:"associatednetworkname"`
		VMs     []struct {
			ID string `json:"id"`
		} `json:"virtualmachines"`
	}
	f := filter{}.set("projectid", projectID)
	return list(ctx, c, "listKubernetesClusters", "kubernetescluster", f, func(k *clusterJSON) string { return k.ID }, func(k *clusterJSON) KubernetesCluster {
		out := KubernetesCluster{ID: k.ID, Name: k.Name, State: k.State, Type: k.Type, Version: k.Version, NetworkName: k.Network}
		for i := range k.VMs {
			out.VMs = append(out.VMs, k.VMs[i].ID)
		}
		return out
	})
}
