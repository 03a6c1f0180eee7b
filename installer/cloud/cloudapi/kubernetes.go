// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// CloudManaged is the type of a cluster that CloudStack made; the other is cloudstack.ExternalManaged.
const CloudManaged = "CloudManaged"

// KubernetesCluster is a cluster of CloudStack Kubernetes Service.
type KubernetesCluster struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	State        string `json:"state"`       // such as Starting, Running, Alert; section 13.3 of the contract
	Type         string `json:"clustertype"` // CloudManaged or cloudstack.ExternalManaged
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
	ControlOfferingID   string      `json:"controlofferingid"`
	ControlOfferingName string      `json:"controlofferingname"`
	WorkerOfferingID    string      `json:"workerofferingid"`
	WorkerOfferingName  string      `json:"workerofferingname"`
	EtcdOfferingID      string      `json:"etcdofferingid"`
	TemplateID          string      `json:"templateid"` // of its nodes
	KeyPair             string      `json:"keypair"`
	Endpoint            string      `json:"endpoint"` // URL of the API server
	IPAddress           string      `json:"ipaddress"`
	IPAddressID         string      `json:"ipaddressid"`
	ControlNodes        int         `json:"controlnodes"`
	Size                int         `json:"size"` // worker nodes
	EtcdNodes           int         `json:"etcdnodes"`
	Autoscaling         bool        `json:"autoscalingenabled"`
	MinSize             int         `json:"minsize"` // 0 without autoscaling
	MaxSize             int         `json:"maxsize"`
	CSI                 bool        `json:"csienabled"`
	Created             string      `json:"created"` // as the server writes it
	VMs                 []string    `json:"-"`       // ids
	Nodes               []ClusterVM `json:"-"`       // the VMs of a CloudManaged cluster
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
	type row struct {
		KubernetesCluster
		All []ClusterVM `json:"virtualmachines"`
	}
	rows, err := cloudstack.List(ctx, c.Client, "listKubernetesClusters", "kubernetescluster", f, func(r *row) string { return r.ID })
	return Names(rows, func(r *row) KubernetesCluster {
		k := r.KubernetesCluster
		k.VMs = Names(r.All, func(vm *ClusterVM) string { return vm.ID })
		if k.Type == CloudManaged {
			k.Nodes = r.All
		}
		return k
	}), err
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

// Params are those of createKubernetesCluster. Its job ends when the cluster is Running, or in cloudstack.Error.
func (r CreateClusterRequest) Params() cloudstack.Params {
	f := cloudstack.Params{
		"clustertype": CloudManaged, "name": r.Name, "zoneid": r.ZoneID, "kubernetesversionid": r.VersionID,
		"controlnodes": strconv.Itoa(r.ControlNodes), "size": strconv.Itoa(r.Size),
	}.Set("serviceofferingid", r.OfferingID).Set("description", r.Description).Set("projectid", r.ProjectID).Set("networkid", r.NetworkID).
		Set("keypair", r.KeyPair).Set("externalloadbalanceripaddress", r.ExternalLBAddress).Flag("enablecsi", r.EnableCSI)
	if r.RootDiskGiB > 0 {
		f["noderootdisksize"] = strconv.Itoa(r.RootDiskGiB)
	}
	return nodeOfferings(f, r.ControlOfferingID, r.WorkerOfferingID)
}

// nodeOfferings adds the map nodeofferings to parameters.
func nodeOfferings(f cloudstack.Params, control, worker string) cloudstack.Params {
	n := 0
	for _, o := range []struct{ node, offering string }{{"control", control}, {"worker", worker}} {
		if o.offering != "" {
			prefix := "nodeofferings[" + strconv.Itoa(n) + "]."
			f[prefix+"node"], f[prefix+"offering"] = o.node, o.offering
			n++
		}
	}
	return f
}

// ScaleClusterRequest changes one kind of thing: the size, or the offerings, or autoscaling.
type ScaleClusterRequest struct {
	ID                                              string
	Size                                            int // 0: unchanged
	OfferingID, ControlOfferingID, WorkerOfferingID string
	Autoscaling                                     *bool // nil: unchanged
	MinSize, MaxSize                                int   // with Autoscaling on
}

// Params are those of scaleKubernetesCluster.
func (r ScaleClusterRequest) Params() cloudstack.Params {
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
	return nodeOfferings(f, r.ControlOfferingID, r.WorkerOfferingID)
}

// KubernetesClusterConfig returns the kubeconfig of a cluster's administrator: a secret.
func (c *Client) KubernetesClusterConfig(ctx context.Context, id string) (string, error) {
	type config struct {
		Data string `json:"configdata"`
	}
	f := cloudstack.Params{"id": id}
	found, err := one(ctx, c, "getKubernetesClusterConfig", "clusterconfig", f, func(c *config) bool { return c.Data != "" })
	return found.Data, err
}

// KubernetesVersion is a version that CloudStack Kubernetes Service can install.
type KubernetesVersion struct {
	ID                  string `json:"id"`
	Name                string `json:"name"`
	Semantic            string `json:"semanticversion"` // such as 1.33.1
	ISOID               string `json:"isoid"`
	ISOName             string `json:"isoname"`
	ISOState            string `json:"isostate"` // Ready when it can be used; empty when the ISO is gone
	ZoneID              string `json:"zoneid"`   // empty: all zones
	ZoneName            string `json:"zonename"`
	Arch                string `json:"arch"`  // x86_64 or aarch64; CloudStack 4.20.1
	State               string `json:"state"` // Enabled where new clusters can have it
	MinCPUs             int    `json:"mincpunumber"`
	MinMemoryMiB        int    `json:"minmemory"` // what a node needs at least
	SupportsHA          bool   `json:"supportsha"`
	SupportsAutoscaling bool   `json:"supportsautoscaling"`
}

// ListKubernetesVersions lists the versions of a zone, with those of all zones; of every zone for "".
func (c *Client) ListKubernetesVersions(ctx context.Context, zoneID string) ([]KubernetesVersion, error) {
	f := cloudstack.Params{}.Set("zoneid", zoneID)
	return cloudstack.List(ctx, c.Client, "listKubernetesSupportedVersions", "kubernetessupportedversion", f, func(v *KubernetesVersion) string { return v.ID })
}

// Event is an entry of CloudStack's event log.
type Event struct {
	ID          string `json:"id"`
	Type        string `json:"type"`  // such as KUBERNETES.CLUSTER.CREATE
	Level       string `json:"level"` // INFO, WARN, ERROR
	State       string `json:"state"` // Created, Scheduled, Started, Completed
	Description string `json:"description"`
	Username    string `json:"username"`
	Created     string `json:"created"` // as the server writes it
}

// ListClusterEvents lists the events of a KubernetesCluster, newest first. Servers before 4.17 have no such parameters and
// list others too.
func (c *Client) ListClusterEvents(ctx context.Context, id, projectID string) ([]Event, error) {
	f := cloudstack.Params{"resourcetype": "KubernetesCluster", "resourceid": id}.Set("projectid", projectID)
	return cloudstack.List(ctx, c.Client, "listEvents", "event", f, func(e *Event) string { return e.ID })
}

// Names returns the names, or something else, of what a list has.
func Names[T, N any](items []T, name func(*T) N) []N {
	out := make([]N, len(items))
	for i := range items {
		out[i] = name(&items[i])
	}
	return out
}
