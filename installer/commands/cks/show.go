// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Cluster is a cluster in results.
type Cluster struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	State   string `json:"state"`
	Type    string `json:"type"`
	Version string `json:"version,omitempty"` // name of the version
	Zone    string `json:"zone"`
	Network string `json:"network,omitempty"`

	ControlNodes int `json:"controlNodes"`
	Workers      int `json:"workers"`
	EtcdNodes    int `json:"etcdNodes,omitempty"`
	// Autoscaling is nil where the size is fixed.
	Autoscaling *Range `json:"autoscaling,omitempty"`

	Offering        string `json:"offering,omitempty"`
	ControlOffering string `json:"controlOffering,omitempty"`
	WorkerOffering  string `json:"workerOffering,omitempty"`
	KeyPair         string `json:"keypair,omitempty"`
	CSI             bool   `json:"csi"`
	Endpoint        string `json:"endpoint,omitempty"`
	Address         string `json:"address,omitempty"`
	Created         string `json:"created,omitempty"`
}

// Range is how many workers autoscaling may make.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

func (r *Range) String() string {
	if r == nil {
		return "off"
	}
	return fmt.Sprintf("%d to %d", r.Min, r.Max)
}

// rangeOf returns the range of a cluster that scales itself, else nil.
func rangeOf(k *cloudapi.KubernetesCluster) *Range {
	if !k.Autoscaling {
		return nil
	}
	return &Range{k.MinSize, k.MaxSize}
}

func viewCluster(k *cloudapi.KubernetesCluster) Cluster {
	return Cluster{
		Name: k.Name, ID: k.ID, State: k.State, Type: k.Type, Version: k.Version, Zone: k.ZoneName, Network: k.NetworkName, ControlNodes: k.ControlNodes,
		Workers: k.Size, EtcdNodes: k.EtcdNodes, Autoscaling: rangeOf(k), Offering: k.OfferingName, ControlOffering: k.ControlOfferingName, WorkerOffering: k.WorkerOfferingName,
		KeyPair: k.KeyPair, CSI: k.CSI, Endpoint: k.Endpoint, Address: k.IPAddress, Created: k.Created,
	}
}

// ClusterList is the result of csccm cks list.
type ClusterList struct {
	SchemaVersion int       `json:"schemaVersion"`
	Clusters      []Cluster `json:"clusters"`
}

// List lists the clusters.
func (s *Service) List(ctx context.Context) (*ClusterList, error) {
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	out := &ClusterList{SchemaVersion: schemaVersion, Clusters: []Cluster{}}
	for i := range all {
		out.Clusters = append(out.Clusters, viewCluster(&all[i]))
	}
	return out, nil
}

// Write prints the list for a person.
func (l *ClusterList) Write(w io.Writer, style report.Style) error {
	t := report.Table{Header: []string{"NAME", "STATE", "VERSION", "CONTROL", "WORKERS", "ZONE", "NETWORK", "ENDPOINT"}}
	for i := range l.Clusters {
		k := &l.Clusters[i]
		state, workers := k.State, strconv.Itoa(k.Workers)
		if k.Type == cloudstack.ExternalManaged {
			state += " (external)"
		}
		if k.Autoscaling != nil {
			workers += fmt.Sprintf(" (%d-%d)", k.Autoscaling.Min, k.Autoscaling.Max)
		}
		t.Add(k.Name, state, dash(k.Version), strconv.Itoa(k.ControlNodes), workers, k.Zone, dash(k.Network), dash(k.Endpoint))
	}
	return t.Write(w, style)
}

func dash(s string) string { return cmp.Or(s, "-") }

// Node is a VM of a cluster in results.
type Node struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Role    string `json:"role"` // control, worker, etcd
	State   string `json:"state"`
	Version string `json:"version,omitempty"`
	// External nodes were added by hand, and CloudStack does not delete their VMs.
	External bool `json:"external,omitempty"`
}

// Event is an event of a cluster in results.
type Event struct {
	Created     string `json:"created"`
	Type        string `json:"type"`
	Level       string `json:"level"`
	State       string `json:"state"`
	Description string `json:"description"`
	User        string `json:"user,omitempty"`
}

func viewEvent(e *cloudapi.Event) Event {
	return Event{Created: e.Created, Type: e.Type, Level: e.Level, State: e.State, Description: e.Description, User: e.Username}
}

// ClusterInfo is the result of csccm cks show.
type ClusterInfo struct {
	SchemaVersion int     `json:"schemaVersion"`
	Cluster       Cluster `json:"cluster"`
	Nodes         []Node  `json:"nodes"`
	Events        []Event `json:"events"` // newest first
	// EventsUnread says why there are no events.
	EventsUnread string `json:"eventsUnread,omitempty"`
	// Next is what to do now.
	Next string `json:"next,omitempty"`
}

// mostEvents is how many events are shown.
const mostEvents = 10

// Show describes a cluster by its name or id. Its events only explain: where the role may not list them, that is said.
func (s *Service) Show(ctx context.Context, name string) (*ClusterInfo, error) {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	out := &ClusterInfo{SchemaVersion: schemaVersion, Cluster: viewCluster(k), Nodes: []Node{}, Events: []Event{}, Next: nextStep(k)}
	for _, vm := range k.Nodes {
		out.Nodes = append(out.Nodes, Node{Name: vm.Name, ID: vm.ID, Role: roleOf(k, vm), State: vm.State, Version: vm.Version, External: vm.External})
	}
	events, err := s.API.ListEvents(ctx, cloudapi.ClusterResource, k.ID, s.Project)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		out.EventsUnread = "the role may not list events"
	} else if err != nil {
		out.EventsUnread = err.Error()
	}
	for i := range events {
		if i < mostEvents || s.All {
			out.Events = append(out.Events, viewEvent(&events[i]))
		}
	}
	return out, nil
}

// roleOf goes by the names that CKS gives: CLUSTER-control-..., CLUSTER-node-... The API shows only which are of etcd.
func roleOf(k *cloudapi.KubernetesCluster, vm cloudapi.ClusterVM) string {
	switch {
	case vm.Etcd:
		return "etcd"
	case strings.HasPrefix(vm.Name, k.Name+"-control-"):
		return "control"
	}
	return "worker"
}

// nextStep says what a person can do with a cluster in its state.
func nextStep(k *cloudapi.KubernetesCluster) string {
	switch {
	case k.Type == cloudstack.ExternalManaged:
		return "CloudStack only lists this cluster; its controller keeps the list (chart value registerCluster)"
	case inProgress(k.State):
		return "csccm cks show " + k.Name + " --watch follows it"
	case k.State == stateRunning:
		return "csccm cks kubeconfig " + k.Name + " writes the configuration for kubectl"
	case k.State == stateStopped:
		return "csccm cks start " + k.Name
	case k.State == stateAlert:
		return "look at the state of the nodes; csccm cks stop " + k.Name + " and csccm cks start " + k.Name + " start them again"
	case k.State == stateError:
		return "correct what the events name; csccm cks delete " + k.Name + " removes what is left, then create it again"
	}
	return ""
}

// Write prints it for a person.
func (c *ClusterInfo) Write(w io.Writer, style report.Style) error {
	k := &c.Cluster
	var b strings.Builder
	for _, line := range [][2]string{
		{"Name", k.Name}, {"ID", k.ID}, {"State", k.State}, {"Type", k.Type}, {"Version", k.Version}, {"Zone", k.Zone}, {"Network", k.Network},
		{"Endpoint", k.Endpoint}, {"Address", k.Address},
		{"Control nodes", strconv.Itoa(k.ControlNodes) + ofOffering(cmp.Or(k.ControlOffering, k.Offering))},
		{"Workers", strconv.Itoa(k.Workers) + ofOffering(cmp.Or(k.WorkerOffering, k.Offering))},
		{"Autoscaling", k.Autoscaling.String()}, {"CSI driver", onOff(k.CSI)}, {"Key pair", k.KeyPair}, {"Created", k.Created},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%-15s%s\n", line[0]+":", terminal.Line(line[1]))
		}
	}
	nodes := report.Table{Header: []string{"NODE", "ROLE", "STATE", "VERSION", "ID"}}
	for _, n := range c.Nodes {
		nodes.Add(n.Name, n.Role, n.State, dash(n.Version), n.ID)
	}
	events := report.Table{Header: []string{"EVENT", "LEVEL", "TYPE", "DESCRIPTION"}}
	for _, e := range c.Events {
		events.Add(e.Created, e.Level, e.Type, e.Description)
	}
	for _, t := range []*report.Table{&nodes, &events} {
		if len(t.Rows) > 0 {
			b.WriteString("\n")
			_ = t.Write(&b, style)
		}
	}
	if c.EventsUnread != "" {
		fmt.Fprintf(&b, "\nEvents: not read, %s\n", c.EventsUnread)
	}
	if c.Next != "" {
		b.WriteString("\n" + style.Indented("Next: ", 6, c.Next))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ofOffering(name string) string {
	if name == "" {
		return ""
	}
	return " of offering " + name
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
