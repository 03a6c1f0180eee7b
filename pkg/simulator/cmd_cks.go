// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

// CloudStack Kubernetes Service: clusters. CloudStack installs Kubernetes inside the VMs of a CloudManaged cluster.
// The simulator creates the VMs, addresses and rules, and assumes that the installation inside the VMs succeeds.

var clusterRefs = map[string]refKind{"id": refKubernetesCluster, "kubernetesversionid": refKubernetesVersion, "nodeids": refVM}

const clusterClass = "user.kubernetes.cluster."

// registered reports whether the command exists: the commands of a disabled plugin do not.
func (st *state) registered(a *apiSpec) bool {
	return !st.settings.KubernetesDisabled || !strings.Contains(a.Name, "Kubernetes") && !strings.Contains(a.Name, "CniConfiguration")
}

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
	NetworkID         string `json:"networkid,omitempty"`
	NetworkName       string `json:"associatednetworkname,omitempty"`
	KubernetesVersion string `json:"kubernetesversionid,omitempty"`
	KubernetesName    string `json:"kubernetesversionname,omitempty"`
	ownerView
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
	Created        *timestamp         `json:"created"`
	HasAnnotations bool               `json:"hasannotations"`
}

// nodeView is a VM as a cluster shows it. CloudStack copies the VM field by field and omits some.
type nodeView struct {
	External bool   `json:"isexternalnode"`
	Etcd     bool   `json:"isetcdnode"`
	Version  string `json:"kubernetesnodeversion,omitempty"`
	vmView
	DomainPath     string `json:"domainpath,omitempty"`     // hides the field of vmView
	IPAddress      string `json:"ipaddress,omitempty"`      // hides the field of vmView
	HasAnnotations *bool  `json:"hasannotations,omitempty"` // hides the field of vmView
}

func (c *call) viewCluster(k *kubernetesCluster) kubernetesClusterView {
	v := kubernetesClusterView{
		ID: k.uuid, Name: k.name, Description: k.description, ZoneID: k.zone.uuid, ZoneName: k.zone.name, EtcdNodes: k.etcd, ownerView: viewOwner(k.owner),
		KeyPair: k.keyPair, MasterNodes: k.control, ControlNodes: k.control, Size: k.size, State: k.state(), CPUs: k.cores, Memory: k.memMB, Endpoint: k.endpoint,
		VMs: []nodeView{}, Autoscaling: k.autoscaling, CSI: k.csi, MinSize: k.minSize, MaxSize: k.maxSize, Kind: k.kind, Created: stamp(k.created),
	}
	if k.offering != nil {
		v.OfferingID, v.OfferingName = k.offering.uuid, k.offering.name
	}
	for kind, to := range map[string][2]*string{
		nodeWorker: {&v.WorkerOffering, &v.WorkerName}, nodeControl: {&v.ControlOffering, &v.ControlName}, nodeEtcd: {&v.EtcdOffering, &v.EtcdName},
	} {
		if o := k.offerings[kind]; o != nil {
			*to[0], *to[1] = o.uuid, o.name
		}
	}
	if k.template != nil {
		v.TemplateID, v.TemplateName = k.template.uuid, k.template.name
	}
	if k.version != nil && !k.version.removed {
		v.KubernetesVersion, v.KubernetesName = k.version.uuid, k.version.name
	}
	if n := k.network; n != nil {
		v.NetworkID, v.NetworkName = n.uuid, n.name
		if ip := c.st.sourceNATOf(n); ip != nil && n.typ != typeShared {
			v.IPAddress, v.IPAddressID = ip.addr.String(), ip.uuid
		}
	}
	for _, n := range k.nodes {
		if !n.vm.removed {
			v.VMs = append(v.VMs, nodeView{External: n.external, Etcd: n.etcd, Version: n.version, vmView: c.viewVM(n.vm, vmDetails{"nics": true})})
		}
	}
	if len(k.nodes) > 0 {
		v.EtcdIPs = ptr(k.etcdIPs())
	}
	return v
}

// etcdIPs returns the public address that forwards to the SSH port of the first etcd node.
func (k *kubernetesCluster) etcdIPs() map[string]string {
	out := map[string]string{}
	for _, f := range k.forwards {
		if n := k.node(f.vm); n != nil && n.etcd && f.publicStart == etcdSSHPort && !f.removed {
			out[k.address.uuid] = k.address.addr.String()
		}
	}
	return out
}

type clusterAnswer struct {
	Cluster kubernetesClusterView `json:"kubernetescluster"`
}

// clusterKind validates clustertype.
func clusterKind(s string) error {
	if s != cloudManaged && s != externalManaged {
		return invalid("Unable to resolve cluster type %s to a supported value (CloudManaged, ExternalManaged)", s)
	}
	return nil
}

func listKubernetesClusters(c *call) (any, error) {
	in, scopeErr := c.ownerScope(c.byID())
	if scopeErr != nil {
		return nil, cksError(scopeErr)
	}
	if c.has("clustertype") {
		if err := clusterKind(c.str("clustertype")); err != nil {
			return nil, cksError(err)
		}
	}
	var out []*kubernetesCluster
	for _, k := range c.st.kubernetesClusters.rows {
		switch {
		case k.removed || !in(k.owner) || !matches(c, "id", k):
		case c.has("name") && !strings.EqualFold(c.str("name"), k.name), c.has("keyword") && !like(k.name, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), k.state()), c.has("clustertype") && c.str("clustertype") != k.kind:
		default:
			out = append(out, k)
		}
	}
	return page(c, "kubernetescluster", out, c.viewCluster)
}

// clusterConfig is the API object clusterconfig.
type clusterConfig struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Data string `json:"configdata"`
}

type clusterConfigAnswer struct {
	Config clusterConfig `json:"clusterconfig"`
}

func getKubernetesClusterConfig(c *call) (any, error) {
	k := arg[*kubernetesCluster](c, "id")
	switch {
	case k == nil || k.removed:
		return nil, cksError(invalid("Invalid Kubernetes cluster ID specified"))
	case !c.access(k.owner):
		return nil, cksError(denied())
	case k.kubeconfig != "":
		return clusterConfigAnswer{clusterConfig{ID: k.uuid, Name: k.name, Data: k.kubeconfig}}, nil
	case k.state() == vmStarting:
		return nil, cksError(invalid("Setup is in progress for Kubernetes cluster : %s, config not available at this moment", k.name))
	}
	return nil, cksError(invalid("Config not found for Kubernetes cluster : %s", k.name))
}

// clusterJob returns a job on a cluster. CloudStack runs the checks when the job starts, immediately after the call.
// Therefore the job fails with err, the result of the checks.
func (c *call) clusterJob(err error, run func(now time.Time) (any, error)) *jobSpec {
	return &jobSpec{run: func(now time.Time) (any, error) {
		if err != nil {
			return nil, cksError(err)
		}
		out, err := run(now)
		return out, cksError(err)
	}}
}

// nodeTime returns when a job ends that starts or removes n VMs one after the other.
func (c *call) nodeTime(command string, n int) time.Time {
	return c.now.Add(c.server.latency.job(c.api.Name) + time.Duration(n)*c.server.latency.job(command))
}
