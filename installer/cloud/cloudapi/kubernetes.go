// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// CreateClusterRequest are the parameters of a CloudManaged cluster. The fields up to Size are required, OfferingID unless
// both kinds of nodes have their own.
type CreateClusterRequest struct {
	Name, ZoneID, VersionID, OfferingID string
	ControlNodes, Size                  int
	Description, ProjectID              string
	NetworkID                           string // empty: CloudStack creates one
	KeyPair                             string
	ExternalLBAddress                   string // of a highly available control plane in a shared network
	ControlOfferingID, WorkerOfferingID string // CloudStack 4.21
	RootDiskGiB                         int
	EnableCSI                           bool // CloudStack 4.22
}

// CreateKubernetesCluster creates a CloudManaged cluster. The job ends when the cluster is Running, or in cloudstack.Error.
func (c *Client) CreateKubernetesCluster(ctx context.Context, r CreateClusterRequest) (cloudstack.Submitted, error) {
	f := cloudstack.Params{
		"clustertype": CloudManaged, "name": r.Name, "zoneid": r.ZoneID, "kubernetesversionid": r.VersionID,
		"controlnodes": strconv.Itoa(r.ControlNodes), "size": strconv.Itoa(r.Size),
	}.Set("serviceofferingid", r.OfferingID).Set("description", r.Description).Set("projectid", r.ProjectID).Set("networkid", r.NetworkID).Set("keypair", r.KeyPair).
		Set("externalloadbalanceripaddress", r.ExternalLBAddress).Flag("enablecsi", r.EnableCSI)
	if r.RootDiskGiB > 0 {
		f["noderootdisksize"] = strconv.Itoa(r.RootDiskGiB)
	}
	nodeOfferings(f, r.ControlOfferingID, r.WorkerOfferingID)
	return c.Submit(ctx, "createKubernetesCluster", f)
}

// nodeOfferings adds the map nodeofferings.
func nodeOfferings(f cloudstack.Params, control, worker string) {
	n := 0
	for _, o := range []struct{ node, offering string }{{"control", control}, {"worker", worker}} {
		if o.offering != "" {
			prefix := "nodeofferings[" + strconv.Itoa(n) + "]."
			f[prefix+"node"], f[prefix+"offering"] = o.node, o.offering
			n++
		}
	}
}

// ScaleClusterRequest changes one kind of thing: the size, or the offerings, or autoscaling.
type ScaleClusterRequest struct {
	ID                                              string
	Size                                            int // 0: unchanged
	OfferingID, ControlOfferingID, WorkerOfferingID string
	Autoscaling                                     *bool // nil: unchanged
	MinSize, MaxSize                                int   // with Autoscaling on
}

// ScaleKubernetesCluster scales a CloudManaged cluster.
func (c *Client) ScaleKubernetesCluster(ctx context.Context, r ScaleClusterRequest) (cloudstack.Submitted, error) {
	f := cloudstack.Params{"id": r.ID}.Set("serviceofferingid", r.OfferingID)
	if r.Size > 0 {
		f["size"] = strconv.Itoa(r.Size)
	}
	if r.Autoscaling != nil {
		f["autoscalingenabled"] = strconv.FormatBool(*r.Autoscaling)
		if *r.Autoscaling {
			f["minsize"], f["maxsize"] = strconv.Itoa(r.MinSize), strconv.Itoa(r.MaxSize)
		}
	}
	nodeOfferings(f, r.ControlOfferingID, r.WorkerOfferingID)
	return c.Submit(ctx, "scaleKubernetesCluster", f)
}

// UpgradeKubernetesCluster upgrades a CloudManaged cluster to another version, node after node.
func (c *Client) UpgradeKubernetesCluster(ctx context.Context, id, versionID string) (cloudstack.Submitted, error) {
	return c.Submit(ctx, "upgradeKubernetesCluster", cloudstack.Params{"id": id, "kubernetesversionid": versionID})
}

// StartKubernetesCluster starts a CloudManaged cluster that is stopped.
func (c *Client) StartKubernetesCluster(ctx context.Context, id string) (cloudstack.Submitted, error) {
	return c.Submit(ctx, "startKubernetesCluster", cloudstack.Params{"id": id})
}

// StopKubernetesCluster stops the VMs of a CloudManaged cluster.
func (c *Client) StopKubernetesCluster(ctx context.Context, id string) (cloudstack.Submitted, error) {
	return c.Submit(ctx, "stopKubernetesCluster", cloudstack.Params{"id": id})
}

// DeleteKubernetesCluster deletes a CloudManaged cluster with its VMs. In a network that CloudStack did not create for it,
// addresses and rules of a controller stay.
func (c *Client) DeleteKubernetesCluster(ctx context.Context, id string) (cloudstack.Submitted, error) {
	return c.Submit(ctx, "deleteKubernetesCluster", cloudstack.Params{"id": id})
}

// KubernetesClusterConfig returns the kubeconfig of a cluster's administrator: a secret.
func (c *Client) KubernetesClusterConfig(ctx context.Context, id string) (string, error) {
	var out struct {
		Config struct {
			Data string `json:"configdata"`
		} `json:"clusterconfig"`
	}
	if err := c.Call(ctx, "getKubernetesClusterConfig", cloudstack.Params{"id": id}, &out); err != nil {
		return "", err
	}
	if out.Config.Data == "" {
		return "", cloudstack.BadAnswer("getKubernetesClusterConfig", "the answer has no configuration")
	}
	return out.Config.Data, nil
}
