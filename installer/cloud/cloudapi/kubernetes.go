// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"fmt"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// CloudManaged is the type of a cluster that CloudStack created; the other type is cloudstack.ExternalManaged.
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
	// The offerings of each kind of node are empty if its nodes have OfferingName. OfferingID is empty if every kind of
	// node was given its own offering.
	ControlOfferingID   string `json:"controlofferingid"`
	ControlOfferingName string `json:"controlofferingname"`
	WorkerOfferingID    string `json:"workerofferingid"`
	WorkerOfferingName  string `json:"workerofferingname"`
	EtcdOfferingID      string `json:"etcdofferingid"`
	EtcdOfferingName    string `json:"etcdofferingname"`

	// TemplateID is the template of nodes that were given no other; CloudStack does not show the others.
	TemplateID    string      `json:"templateid"`
	TemplateName  string      `json:"templatename"`
	CNIConfigID   string      `json:"cniconfigurationid"` // empty: the default network plugin of the version
	CNIConfigName string      `json:"cniconfigname"`
	KeyPair       string      `json:"keypair"`
	Endpoint      string      `json:"endpoint"` // URL of the API server
	IPAddress     string      `json:"ipaddress"`
	IPAddressID   string      `json:"ipaddressid"`
	ControlNodes  int         `json:"controlnodes"`
	Size          int         `json:"size"` // worker nodes
	EtcdNodes     int         `json:"etcdnodes"`
	Autoscaling   bool        `json:"autoscalingenabled"`
	MinSize       int         `json:"minsize"` // 0 without autoscaling
	MaxSize       int         `json:"maxsize"`
	CSI           bool        `json:"csienabled"`
	Account       string      `json:"account"`
	Project       string      `json:"project"` // empty for a cluster of an account
	Created       string      `json:"created"` // as the server writes it
	VMs           []string    `json:"-"`       // ids
	Nodes         []ClusterVM `json:"-"`       // the VMs of a CloudManaged cluster
}

// ClusterVM is a VM in the list of its cluster.
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

// ListKubernetesClusters is like the method of cloudstack.Client but returns all fields.
func (c *Client) ListKubernetesClusters(ctx context.Context, projectID string) ([]KubernetesCluster, error) {
	return c.listClusters(ctx, cloudstack.Params{}.Set("projectid", projectID))
}

// KubernetesCluster returns a cluster of a project, or of the account if projectID is ""; nil if it no longer exists.
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

// Owner returns the account or the project of a cluster.
func (k *KubernetesCluster) Owner() string {
	if k.Project != "" {
		return "project " + k.Project
	}
	return "account " + k.Account
}

// ListAllKubernetesClusters lists the clusters of all accounts and projects that the caller may see.
func (c *Client) ListAllKubernetesClusters(ctx context.Context) ([]KubernetesCluster, error) {
	return c.listClusters(ctx, cloudstack.Params{"listall": "true", "projectid": "-1"})
}

func (c *Client) listClusters(ctx context.Context, f cloudstack.Params) ([]KubernetesCluster, error) {
	type row struct {
		KubernetesCluster
		All []ClusterVM `json:"virtualmachines"`
	}
	rows, err := cloudstack.List(ctx, c.Client, "listKubernetesClusters", "kubernetescluster", f,
		func(r *row) string { return r.ID })
	return Names(rows, func(r *row) KubernetesCluster {
		k := r.KubernetesCluster
		k.VMs = Names(r.All, func(vm *ClusterVM) string { return vm.ID })
		if k.Type == CloudManaged {
			k.Nodes = r.All
		}
		return k
	}), err
}

// CreateClusterRequest has the parameters for a CloudManaged cluster. The fields up to Size are required, except
// OfferingID if both kinds of nodes have offerings of their own.
type CreateClusterRequest struct {
	Name, ZoneID, VersionID, OfferingID string
	ControlNodes, Size                  int
	Description, ProjectID              string
	NetworkID                           string // empty: CloudStack creates a network
	KeyPair                             string
	ExternalLBAddress                   string // of a highly available control plane in a shared network
	RootDiskGiB                         int
	EnableCSI                           bool
	ASNumber                            int // of a new routed network

	// Since CloudStack 4.21: offerings and templates for each kind of node; empty means those of all nodes.
	ControlOfferingID, WorkerOfferingID, EtcdOfferingID string
	ControlTemplateID, WorkerTemplateID, EtcdTemplateID string
	EtcdNodes                                           int
	Hypervisor                                          string
	CNIConfigID                                         string
	CNIParams                                           map[string]string

	Registry Registry
}

// Registry is a registry of container images with a login; no parameter is sent without a URL.
type Registry struct{ URL, Username, Password string }

// Params returns the parameters of createKubernetesCluster. Its job ends when the cluster is Running, or with a
// cloudstack.Error.
func (r CreateClusterRequest) Params() cloudstack.Params {
	f := cloudstack.Params{
		"clustertype": CloudManaged, "name": r.Name, "zoneid": r.ZoneID, "kubernetesversionid": r.VersionID,
		"controlnodes": strconv.Itoa(r.ControlNodes), "size": strconv.Itoa(r.Size),
	}.
		Set("serviceofferingid", r.OfferingID).
		Set("description", r.Description).
		Set("projectid", r.ProjectID).
		Set("networkid", r.NetworkID).
		Set("keypair", r.KeyPair).
		Set("externalloadbalanceripaddress", r.ExternalLBAddress).
		Flag("enablecsi", r.EnableCSI).
		Set("hypervisor", r.Hypervisor).
		Set("cniconfigurationid", r.CNIConfigID).
		Set("dockerregistryurl", r.Registry.URL).
		Set("dockerregistryusername", r.Registry.Username).
		Set("dockerregistrypassword", r.Registry.Password)

	for name, n := range map[string]int{
		"noderootdisksize": r.RootDiskGiB,
		"asnumber":         r.ASNumber,
		"etcdnodes":        r.EtcdNodes,
	} {
		if n > 0 {
			f[name] = strconv.Itoa(n)
		}
	}

	for name, value := range r.CNIParams {
		f["cniconfigdetails[0]."+name] = value
	}

	nodeMap(f, "template", r.ControlTemplateID, r.WorkerTemplateID, r.EtcdTemplateID)
	return nodeMap(f, "offering", r.ControlOfferingID, r.WorkerOfferingID, r.EtcdOfferingID)
}

// nodeMap adds the map nodeofferings or nodetemplates to parameters. ids are those for control nodes, workers and etcd
// nodes.
func nodeMap(f cloudstack.Params, what string, ids ...string) cloudstack.Params {
	n := 0
	for i, id := range ids {
		if id != "" {
			prefix := fmt.Sprintf("node%ss[%d].", what, n)
			f[prefix+"node"], f[prefix+what] = []string{"control", "worker", "etcd"}[i], id
			n++
		}
	}
	return f
}

// CNIConfig is user data that installs a network plugin in a new cluster.
type CNIConfig struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Account  string `json:"account"`
	Project  string `json:"project"`
	Domain   string `json:"domainpath"`
	Params   string `json:"params"`   // names of variables, separated by commas
	UserData string `json:"userdata"` // in base64
}

// ListCNIConfigs returns the configurations of a project, or of the account if projectID is "".
func (c *Client) ListCNIConfigs(ctx context.Context, projectID string) ([]CNIConfig, error) {
	f := cloudstack.Params{}.Set("projectid", projectID)
	return cloudstack.List(ctx, c.Client, "listCniConfiguration", "cniconfig", f,
		func(n *CNIConfig) string { return n.ID })
}

// Template is an image of VMs.
type Template struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	ZoneID string `json:"zoneid"` // lists have an entry for each zone
}

// ListCKSTemplates lists the templates that are marked for nodes of Kubernetes clusters.
func (c *Client) ListCKSTemplates(ctx context.Context, zoneID string) ([]Template, error) {
	f := cloudstack.Params{"templatefilter": "executable", "forcks": "true"}.Set("zoneid", zoneID)
	return cloudstack.List(ctx, c.Client, "listTemplates", "template", f,
		func(t *Template) string { return t.ID + t.ZoneID })
}

// Volume is a disk.
type Volume struct {
	ID   string `json:"id"`
	Type string `json:"type"` // ROOT or DATADISK
	Size int64  `json:"size"` // bytes
}

// ListVolumes lists the disks of a VM.
func (c *Client) ListVolumes(ctx context.Context, vmID, projectID string) ([]Volume, error) {
	f := cloudstack.Params{"virtualmachineid": vmID}.Set("projectid", projectID)
	return cloudstack.List(ctx, c.Client, "listVolumes", "volume", f, func(v *Volume) string { return v.ID })
}

// ScaleClusterRequest changes either the size, or the offerings, or autoscaling of a cluster.
type ScaleClusterRequest struct {
	ID                                              string
	Size                                            int // 0: unchanged
	OfferingID, ControlOfferingID, WorkerOfferingID string
	Autoscaling                                     *bool // nil: unchanged
	MinSize, MaxSize                                int   // with Autoscaling on
}

// Params returns the parameters of scaleKubernetesCluster.
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
	return nodeMap(f, "offering", r.ControlOfferingID, r.WorkerOfferingID)
}

// KubernetesClusterConfig returns the kubeconfig of a cluster's administrator, which is a secret.
func (c *Client) KubernetesClusterConfig(ctx context.Context, id string) (string, error) {
	type config struct {
		Data string `json:"configdata"`
	}
	f := cloudstack.Params{"id": id}
	found, err := one(ctx, c, "getKubernetesClusterConfig", "clusterconfig", f,
		func(c *config) bool { return c.Data != "" })
	return found.Data, err
}

// KubernetesVersion is a version that CloudStack Kubernetes Service can install.
type KubernetesVersion struct {
	ID                  string `json:"id"`
	Name                string `json:"name"`
	Semantic            string `json:"semanticversion"` // such as 1.33.1
	ISOID               string `json:"isoid"`
	ISOName             string `json:"isoname"`
	ISOState            string `json:"isostate"` // Ready if it can be used; empty if the ISO no longer exists
	ZoneID              string `json:"zoneid"`   // empty: all zones
	ZoneName            string `json:"zonename"`
	Arch                string `json:"arch"`  // x86_64 or aarch64; CloudStack 4.20.1
	State               string `json:"state"` // Enabled if new clusters can use it
	MinCPUs             int    `json:"mincpunumber"`
	MinMemoryMiB        int    `json:"minmemory"` // minimum for a node
	SupportsHA          bool   `json:"supportsha"`
	SupportsAutoscaling bool   `json:"supportsautoscaling"`
}

// ListKubernetesVersions returns the versions for a zone, including those for all zones; every version if zoneID is "".
func (c *Client) ListKubernetesVersions(ctx context.Context, zoneID string) ([]KubernetesVersion, error) {
	f := cloudstack.Params{}.Set("zoneid", zoneID)
	return cloudstack.List(ctx, c.Client, "listKubernetesSupportedVersions", "kubernetessupportedversion", f,
		func(v *KubernetesVersion) string { return v.ID })
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

// ListClusterEvents returns the events of a KubernetesCluster, newest first. Servers before 4.17 ignore the parameters
// and return other events too.
func (c *Client) ListClusterEvents(ctx context.Context, id, projectID string) ([]Event, error) {
	f := cloudstack.Params{"resourcetype": "KubernetesCluster", "resourceid": id}.Set("projectid", projectID)
	return cloudstack.List(ctx, c.Client, "listEvents", "event", f, func(e *Event) string { return e.ID })
}

// Names returns the result of name for each item.
func Names[T, N any](items []T, name func(*T) N) []N {
	out := make([]N, len(items))
	for i := range items {
		out[i] = name(&items[i])
	}
	return out
}
