// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"
)

// The types of a KubernetesCluster.
const (
	CloudManaged    = "CloudManaged"    // CloudStack made it
	ExternalManaged = "ExternalManaged" // CloudStack only lists it
)

// KubernetesCluster is a cluster of CloudStack Kubernetes Service.
type KubernetesCluster struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"` // such as Starting, Running, Alert; section 13.3 of the contract
	// Type is CloudManaged or ExternalManaged.
	Type         string `json:"clustertype"`
	Description  string `json:"description"`
	ZoneID       string `json:"zoneid"`
	ZoneName     string `json:"zonename"`
	VersionID    string `json:"kubernetesversionid"`
	Version      string `json:"kubernetesversionname"` // the version's name, not its number
	NetworkID    string `json:"networkid"`
	NetworkName  string `json:"associatednetworkname"`
	OfferingID   string `json:"serviceofferingid"`
	OfferingName string `json:"serviceofferingname"`
	// ControlOfferingName and WorkerOfferingName are empty where these nodes have OfferingName. OfferingID is empty where
	// each kind of node was given its own.
	ControlOfferingID   string   `json:"controlofferingid"`
	ControlOfferingName string   `json:"controlofferingname"`
	WorkerOfferingID    string   `json:"workerofferingid"`
	WorkerOfferingName  string   `json:"workerofferingname"`
	EtcdOfferingID      string   `json:"etcdofferingid"`
	TemplateID          string   `json:"templateid"` // of its nodes
	KeyPair             string   `json:"keypair"`
	Endpoint            string   `json:"endpoint"` // URL of the API server
	IPAddress           string   `json:"ipaddress"`
	IPAddressID         string   `json:"ipaddressid"`
	ControlNodes        int      `json:"controlnodes"`
	Size                int      `json:"size"` // worker nodes
	EtcdNodes           int      `json:"etcdnodes"`
	Autoscaling         bool     `json:"autoscalingenabled"`
	MinSize             int      `json:"minsize"` // 0 without autoscaling
	MaxSize             int      `json:"maxsize"`
	CSI                 bool     `json:"csienabled"`
	Created             string   `json:"created"` // as the server writes it
	VMs                 []string `json:"-"`       // ids
	// Nodes are the VMs of a CloudManaged cluster.
	Nodes []ClusterVM `json:"-"`
}

// ClusterVM is a VM as its cluster shows it.
type ClusterVM struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	State      string `json:"state"`
	OfferingID string `json:"serviceofferingid"`
	TemplateID string `json:"templateid"`
	Version    string `json:"kubernetesnodeversion"` // empty before 4.21
	External   bool   `json:"isexternalnode"`
	Etcd       bool   `json:"isetcdnode"`
}

// ListKubernetesClusters lists the clusters of CloudStack Kubernetes Service in a project, or in the account for "".
// A server without the service, and a role that may not ask, are errors of KindNotPermitted.
func (c *Client) ListKubernetesClusters(ctx context.Context, projectID string) ([]KubernetesCluster, error) {
	return c.listClusters(ctx, filter{}.set("projectid", projectID))
}

// KubernetesCluster returns a cluster of a project, or of the account for ""; nil when it does not exist any more.
func (c *Client) KubernetesCluster(ctx context.Context, id, projectID string) (*KubernetesCluster, error) {
	all, err := c.listClusters(ctx, filter{"id": id}.set("projectid", projectID))
	if IsNotFound(err) || err == nil && len(all) == 0 {
		return nil, nil //nolint:nilnil // an empty answer is a complete answer
	}
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

func (c *Client) listClusters(ctx context.Context, f filter) ([]KubernetesCluster, error) {
	type clusterJSON struct {
		KubernetesCluster
		VMs []ClusterVM `json:"virtualmachines"`
	}
	return list(ctx, c, "listKubernetesClusters", "kubernetescluster", f, func(k *clusterJSON) string { return k.ID }, func(k *clusterJSON) KubernetesCluster {
		out := k.KubernetesCluster
		for i := range k.VMs {
			out.VMs = append(out.VMs, k.VMs[i].ID)
		}
		if out.Type == CloudManaged {
			out.Nodes = k.VMs
		}
		return out
	})
}

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

// CreateKubernetesCluster creates a CloudManaged cluster. The job ends when the cluster is Running, or in Error.
func (c *Client) CreateKubernetesCluster(ctx context.Context, r CreateClusterRequest) (Submitted, error) {
	f := filter{
		"clustertype": CloudManaged, "name": r.Name, "zoneid": r.ZoneID, "kubernetesversionid": r.VersionID,
		"controlnodes": strconv.Itoa(r.ControlNodes), "size": strconv.Itoa(r.Size),
	}.set("serviceofferingid", r.OfferingID).set("description", r.Description).set("projectid", r.ProjectID).set("networkid", r.NetworkID).set("keypair", r.KeyPair).
		set("externalloadbalanceripaddress", r.ExternalLBAddress).flag("enablecsi", r.EnableCSI)
	if r.RootDiskGiB > 0 {
		f["noderootdisksize"] = strconv.Itoa(r.RootDiskGiB)
	}
	f.nodeOfferings(r.ControlOfferingID, r.WorkerOfferingID)
	return c.submit(ctx, "createKubernetesCluster", f)
}

// nodeOfferings adds the map nodeofferings.
func (f filter) nodeOfferings(control, worker string) {
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
func (c *Client) ScaleKubernetesCluster(ctx context.Context, r ScaleClusterRequest) (Submitted, error) {
	f := filter{"id": r.ID}.set("serviceofferingid", r.OfferingID)
	if r.Size > 0 {
		f["size"] = strconv.Itoa(r.Size)
	}
	if r.Autoscaling != nil {
		f["autoscalingenabled"] = strconv.FormatBool(*r.Autoscaling)
		if *r.Autoscaling {
			f["minsize"], f["maxsize"] = strconv.Itoa(r.MinSize), strconv.Itoa(r.MaxSize)
		}
	}
	f.nodeOfferings(r.ControlOfferingID, r.WorkerOfferingID)
	return c.submit(ctx, "scaleKubernetesCluster", f)
}

// UpgradeKubernetesCluster upgrades a CloudManaged cluster to another version, node after node.
func (c *Client) UpgradeKubernetesCluster(ctx context.Context, id, versionID string) (Submitted, error) {
	return c.submit(ctx, "upgradeKubernetesCluster", filter{"id": id, "kubernetesversionid": versionID})
}

// StartKubernetesCluster starts a CloudManaged cluster that is stopped.
func (c *Client) StartKubernetesCluster(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "startKubernetesCluster", filter{"id": id})
}

// StopKubernetesCluster stops the VMs of a CloudManaged cluster.
func (c *Client) StopKubernetesCluster(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "stopKubernetesCluster", filter{"id": id})
}

// DeleteKubernetesCluster deletes a CloudManaged cluster with its VMs. In a network that CloudStack did not create for it,
// addresses and rules of a controller stay.
func (c *Client) DeleteKubernetesCluster(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteKubernetesCluster", filter{"id": id})
}

// KubernetesClusterConfig returns the kubeconfig of a cluster's administrator: a secret.
func (c *Client) KubernetesClusterConfig(ctx context.Context, id string) (string, error) {
	var out struct {
		Config struct {
			Data string `json:"configdata"`
		} `json:"clusterconfig"`
	}
	if err := c.call(ctx, "getKubernetesClusterConfig", filter{"id": id}, &out); err != nil {
		return "", err
	}
	if out.Config.Data == "" {
		return "", badAnswer("getKubernetesClusterConfig", "the answer has no configuration")
	}
	return out.Config.Data, nil
}
