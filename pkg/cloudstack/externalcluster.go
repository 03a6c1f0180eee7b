// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"
)

// ExternalClusterRequest are the parameters of an ExternalManaged cluster.
type ExternalClusterRequest struct {
	Name, Description, ZoneID string
	NetworkID, ProjectID      string // may be empty
}

// CreateExternalCluster creates an ExternalManaged cluster and waits until it is listed. The server accepts a second one
// of the same name: look first.
func (c *Client) CreateExternalCluster(ctx context.Context, r ExternalClusterRequest) (id string, err error) {
	s, err := c.submit(ctx, "createKubernetesCluster", filter{"clustertype": ExternalManaged, "name": r.Name, "zoneid": r.ZoneID}.
		set("description", r.Description).set("networkid", r.NetworkID).set("projectid", r.ProjectID))
	if err != nil {
		return "", err
	}
	_, err = c.jobs.Wait(ctx, "createKubernetesCluster", s.JobID)
	return s.ID, err
}

// AddClusterVMs adds VMs to an ExternalManaged cluster. A VM that is in it already is no error.
func (c *Client) AddClusterVMs(ctx context.Context, clusterID string, vms []string, control bool) error {
	return c.call(ctx, "addVirtualMachinesToKubernetesCluster",
		filter{"id": clusterID, "virtualmachineids": joinIDs(vms), "iscontrolnode": strconv.FormatBool(control)}, &struct{}{})
}

// RemoveClusterVMs removes VMs from an ExternalManaged cluster. A VM that is not in it is no error.
func (c *Client) RemoveClusterVMs(ctx context.Context, clusterID string, vms []string) error {
	return c.call(ctx, "removeVirtualMachinesFromKubernetesCluster", filter{"id": clusterID, "virtualmachineids": joinIDs(vms)}, &struct{}{})
}

// DeleteExternalCluster deletes an ExternalManaged cluster, and none of its VMs, and waits for that.
func (c *Client) DeleteExternalCluster(ctx context.Context, clusterID string) error {
	s, err := c.submit(ctx, "deleteKubernetesCluster", filter{"id": clusterID, "cleanup": "false"})
	if err != nil {
		return err
	}
	_, err = c.jobs.Wait(ctx, "deleteKubernetesCluster", s.JobID)
	return err
}
