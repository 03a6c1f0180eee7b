// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// CloudStack Kubernetes Service: clusters. CloudStack installs Kubernetes inside the VMs of a CloudManaged cluster.
// The simulator creates the VMs, addresses and rules. What happens inside the VMs is up to wire.ClusterInside.

// kubernetesClusterView is the API object kubernetescluster.
type kubernetesClusterView struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	Description       string `json:"description"`
	ZoneID            string `json:"zoneid"`
	ZoneName          string `json:"zonename"`
	OfferingID        string `json:"serviceofferingid,omitempty"`
	OfferingName      string `json:"serviceofferingname,omitempty"`
	WorkerOffering    string `json:"workerofferingid,omitempty"`
	WorkerName        string `json:"workerofferingname,omitempty"`
	ControlOffering   string `json:"controlofferingid,omitempty"`
	ControlName       string `json:"controlofferingname,omitempty"`
	EtcdOffering      string `json:"etcdofferingid,omitempty"`
	EtcdName          string `json:"etcdofferingname,omitempty"`
	EtcdNodes         int    `json:"etcdnodes"`
	TemplateID        string `json:"templateid,omitempty"`
	TemplateName      string `json:"templatename,omitempty"`
	CNIConfigID       string `json:"cniconfigurationid,omitempty"`
	CNIConfigName     string `json:"cniconfigname,omitempty"`
	NetworkID         string `json:"networkid,omitempty"`
	NetworkName       string `json:"associatednetworkname,omitempty"`
	KubernetesVersion string `json:"kubernetesversionid,omitempty"`
	KubernetesName    string `json:"kubernetesversionname,omitempty"`
	wire.OwnerView
	KeyPair        string             `json:"keypair,omitempty"`
	MasterNodes    int                `json:"masternodes"`
	ControlNodes   int                `json:"controlnodes"`
	Size           int                `json:"size"`
	State          string             `json:"state"`
	CPUs           int                `json:"cpunumber,string"`
	Memory         int                `json:"memory,string"`
	Endpoint       string             `json:"endpoint"`
	VMs            []nodeView         `json:"virtualmachines"`
	IPAddress      string             `json:"ipaddress,omitempty"`
	IPAddressID    string             `json:"ipaddressid,omitempty"`
	EtcdIPs        *map[string]string `json:"etcdips,omitempty"` // present, even if empty, once the cluster has nodes
	Autoscaling    bool               `json:"autoscalingenabled"`
	CSI            bool               `json:"csienabled"`
	MinSize        *int               `json:"minsize,omitempty"`
	MaxSize        *int               `json:"maxsize,omitempty"`
	Kind           string             `json:"clustertype"`
	Created        *wire.Timestamp    `json:"created"`
	HasAnnotations bool               `json:"hasannotations"`
}

// nodeView is a VM as a cluster shows it. CloudStack copies the VM field by field and omits some.
type nodeView struct {
	External bool   `json:"isexternalnode"`
	Etcd     bool   `json:"isetcdnode"`
	Version  string `json:"kubernetesnodeversion,omitempty"`
	view.VMView
	DomainPath     string `json:"domainpath,omitempty"`     // hides the field of VMView
	IPAddress      string `json:"ipaddress,omitempty"`      // hides the field of VMView
	HasAnnotations *bool  `json:"hasannotations,omitempty"` // hides the field of VMView
}

func viewCluster(c *wire.Call, k *store.KubernetesCluster) kubernetesClusterView {
	v := kubernetesClusterView{
		ID:           k.UUID,
		Name:         k.Name,
		Description:  k.Description,
		ZoneID:       k.Zone.UUID,
		ZoneName:     k.Zone.Name,
		EtcdNodes:    k.Etcd,
		OwnerView:    wire.ViewOwner(k.Owner),
		MasterNodes:  k.Control,
		ControlNodes: k.Control,
		Size:         k.Size,
		State:        k.State(),
		CPUs:         k.Cores,
		Memory:       k.MemMB,
		Endpoint:     k.Endpoint,
		VMs:          []nodeView{},
		Autoscaling:  k.Autoscaling,
		CSI:          k.Csi,
		MinSize:      k.MinSize,
		MaxSize:      k.MaxSize,
		Kind:         k.Kind,
		Created:      wire.Stamp(k.Created),
	}

	if k.Offering != nil {
		v.OfferingID, v.OfferingName = k.Offering.UUID, k.Offering.Name
	}

	for kind, to := range map[string][2]*string{
		store.NodeWorker:  {&v.WorkerOffering, &v.WorkerName},
		store.NodeControl: {&v.ControlOffering, &v.ControlName},
		store.NodeEtcd:    {&v.EtcdOffering, &v.EtcdName},
	} {
		if o := k.Offerings[kind]; o != nil {
			*to[0], *to[1] = o.UUID, o.Name
		}
	}

	if k.Template != nil {
		v.TemplateID, v.TemplateName = k.Template.UUID, k.Template.Name
	}

	if k.CNI != nil {
		v.CNIConfigID, v.CNIConfigName = k.CNI.UUID, k.CNI.Name
	}

	if k.Version != nil && !k.Version.Removed {
		v.KubernetesVersion, v.KubernetesName = k.Version.UUID, k.Version.Name
	}

	if n := k.Network; n != nil {
		v.NetworkID, v.NetworkName = n.UUID, n.Name
		if ip := sourceNATOf(c.St, n); ip != nil && n.Typ != store.TypeShared {
			v.IPAddress, v.IPAddressID = ip.Addr.String(), ip.UUID
		}
	}

	for _, n := range k.Nodes {
		if !n.VM.Removed {
			vm := view.ViewVM(c, n.VM, view.VMDetails{"nics": true})
			v.VMs = append(v.VMs, nodeView{External: n.External, Etcd: n.Etcd, Version: n.Version, VMView: vm})
		}
	}

	if len(k.Nodes) > 0 {
		v.EtcdIPs = wire.Ptr(etcdIPs(c.St, k))
	}

	return v
}

// etcdIPs returns the public address that forwards to the SSH port of the first etcd node.
func etcdIPs(st *store.State, k *store.KubernetesCluster) map[string]string {
	out := map[string]string{}
	for _, f := range k.Forwards {
		if n := k.Node(f.VM); n != nil && n.Etcd && f.PublicStart == st.EtcdSSHPort() && !f.Removed {
			out[k.Address.UUID] = k.Address.Addr.String()
		}
	}
	return out
}

// clusterKind validates clustertype.
func clusterKind(s string) error {
	if s != store.CloudManaged && s != store.ExternalManaged {
		return wire.Invalid("Unable to resolve cluster type %s to a supported value (CloudManaged, ExternalManaged)", s)
	}
	return nil
}

func listKubernetesClusters(c *wire.Call) (any, error) {
	in, scopeErr := c.OwnerScope(c.ByID())
	if scopeErr != nil {
		return nil, cksError(scopeErr)
	}
	if c.Has("clustertype") {
		if err := clusterKind(c.Str("clustertype")); err != nil {
			return nil, cksError(err)
		}
	}
	return wire.List(c, "kubernetescluster", c.St.KubernetesClusters.Rows, func(k *store.KubernetesCluster) bool {
		return in(k.Owner) && c.Is("name", k.Name) && c.Like("keyword", k.Name) && c.Is("state", k.State()) &&
			(!c.Has("clustertype") || c.Str("clustertype") == k.Kind)
	}, func(k *store.KubernetesCluster) kubernetesClusterView { return viewCluster(c, k) })
}

// clusterConfig is the API object clusterconfig.
type clusterConfig struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Data string `json:"configdata"`
}

func getKubernetesClusterConfig(c *wire.Call) (any, error) {
	k := wire.Arg[*store.KubernetesCluster](c, "id")
	switch {
	case k == nil || k.Removed:
		return nil, cksError(wire.Invalid("Invalid Kubernetes cluster ID specified"))
	case !c.Access(k.Owner):
		return nil, cksError(wire.Denied())
	case k.Kubeconfig != "":
		return wire.Object("clusterconfig", clusterConfig{ID: k.UUID, Name: k.Name, Data: k.Kubeconfig}), nil
	case k.State() == store.VMStarting:
		return nil, cksError(wire.Invalid("Setup is in progress for Kubernetes cluster : %s, config not available at "+
			"this moment", k.Name))
	}
	return nil, cksError(wire.Invalid("Config not found for Kubernetes cluster : %s", k.Name))
}

// clusterJob returns a job on a cluster. CloudStack runs the checks when the job starts, immediately after the call,
// so the job fails with err, the result of the checks.
func clusterJob(c *wire.Call, err error, run func(now time.Time) (any, error)) *wire.JobSpec {
	return &wire.JobSpec{Run: func(now time.Time) (any, error) {
		if err != nil {
			return nil, cksError(err)
		}
		out, err := run(now)
		return out, cksError(err)
	}}
}
