// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// CloudManaged is the type of a cluster that CloudStack made; the other is cloudstack.ExternalManaged.
const CloudManaged = "CloudManaged"

// KubernetesCluster is a cluster of CloudStack Kubernetes Service.
type KubernetesCluster struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"` // such as Starting, Running, Alert; section 13.3 of the contract
	// Type is CloudManaged or cloudstack.ExternalManaged.
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

// ListKubernetesClusters is that of cloudstack.Client with all fields.
func (c *Client) ListKubernetesClusters(ctx context.Context, projectID string) ([]KubernetesCluster, error) {
	return c.listClusters(ctx, cloudstack.Params{}.Set("projectid", projectID))
}

// KubernetesCluster returns a cluster of a project, or of the account for ""; nil when it does not exist any more.
func (c *Client) KubernetesCluster(ctx context.Context, id, projectID string) (*KubernetesCluster, error) {
	all, err := c.listClusters(ctx, cloudstack.Params{"id": id}.Set("projectid", projectID))
	if cloudstack.IsNotFound(err) || err == nil && len(all) == 0 {
		return nil, nil //nolint:nilnil // an empty answer is a complete answer
	}
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

func (c *Client) listClusters(ctx context.Context, f cloudstack.Params) ([]KubernetesCluster, error) {
	return cloudstack.List(ctx, c.Client, "listKubernetesClusters", "kubernetescluster", f, func(k *KubernetesCluster) string { return k.ID })
}

// UnmarshalJSONFrom reads an entry of listKubernetesClusters.
func (k *KubernetesCluster) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain KubernetesCluster
	var entry struct {
		plain
		VMs []ClusterVM `json:"virtualmachines"`
	}
	err := json.UnmarshalDecode(d, &entry)
	*k = KubernetesCluster(entry.plain)
	for i := range entry.VMs {
		k.VMs = append(k.VMs, entry.VMs[i].ID)
	}
	if k.Type == CloudManaged {
		k.Nodes = entry.VMs
	}
	return err
}

// DeleteExternalCluster deletes an ExternalManaged cluster, and none of its VMs, and waits for that.
func (c *Client) DeleteExternalCluster(ctx context.Context, clusterID string) error {
	return c.finish(ctx, "deleteKubernetesCluster", cloudstack.Params{"id": clusterID, "cleanup": "false"})
}
