// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"
)

// ExternalManaged is the type of a cluster that CloudStack only lists.
const ExternalManaged = "ExternalManaged"

// KubernetesCluster holds what the controller needs to know about a cluster of CloudStack Kubernetes Service.
type KubernetesCluster struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Type        string   `json:"clustertype"`
	Description string   `json:"description"`
	VMs         []string `json:"virtualmachines"` // ids
}

// ListKubernetesClusters lists the clusters of CloudStack Kubernetes Service in a project, or in the account if
// projectID is empty. The error is KindNotPermitted if the server lacks the service or the role may not list clusters.
func (c *Client) ListKubernetesClusters(ctx context.Context, projectID string) ([]KubernetesCluster, error) {
	return List(ctx, c, "listKubernetesClusters", "kubernetescluster", Params{}.Set("projectid", projectID),
		func(k *KubernetesCluster) string { return k.ID })
}

// ExternalClusterRequest are the parameters of an ExternalManaged cluster.
type ExternalClusterRequest struct {
	Name, Description, ZoneID string
	NetworkID, ProjectID      string // may be empty
}

// CreateExternalCluster creates an ExternalManaged cluster and waits until it is listed. The server accepts a second
// one of the same name, so check first whether it exists.
func (c *Client) CreateExternalCluster(ctx context.Context, r ExternalClusterRequest) (id string, err error) {
	s, err := c.Submit(ctx, "createKubernetesCluster",
		Params{"clustertype": ExternalManaged, "name": r.Name, "zoneid": r.ZoneID}.
			Set("description", r.Description).Set("networkid", r.NetworkID).Set("projectid", r.ProjectID))
	if err != nil {
		return "", err
	}
	_, err = c.jobs.Wait(ctx, "createKubernetesCluster", s.JobID)
	return s.ID, err
}

// AddClusterVMs adds VMs to an ExternalManaged cluster. A VM that is in it already is no error.
func (c *Client) AddClusterVMs(ctx context.Context, clusterID string, vms []string, control bool) error {
	return c.Call(ctx, "addVirtualMachinesToKubernetesCluster",
		Params{"id": clusterID, "virtualmachineids": joined(vms), "iscontrolnode": strconv.FormatBool(control)},
		&struct{}{})
}

// RemoveClusterVMs removes VMs from an ExternalManaged cluster. A VM that is not in it is no error.
func (c *Client) RemoveClusterVMs(ctx context.Context, clusterID string, vms []string) error {
	return c.Call(ctx, "removeVirtualMachinesFromKubernetesCluster",
		Params{"id": clusterID, "virtualmachineids": joined(vms)}, &struct{}{})
}
