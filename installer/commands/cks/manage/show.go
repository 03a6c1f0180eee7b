// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

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

// Show describes a cluster by its name or id.
func (s *Service) Show(ctx context.Context, name string) (*ClusterInfo, error) {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	out := &ClusterInfo{SchemaVersion: schemaVersion, Cluster: viewCluster(k), Nodes: []Node{}, Events: []Event{}, Next: nextStep(k)}
	for _, vm := range k.Nodes {
		out.Nodes = append(out.Nodes, Node{Name: vm.Name, ID: vm.ID, Role: roleOf(k, vm), State: vm.State, Version: vm.Version, External: vm.External})
	}
	events, why := s.events(ctx, k.ID)
	out.EventsUnread = why
	for i, e := range events {
		if i == mostEvents && !s.All {
			break
		}
		out.Events = append(out.Events, Event{Created: e.Created, Type: e.Type, Level: e.Level, State: e.State, Description: e.Description, User: e.Username})
	}
	return out, nil
}

// roleOf goes by the names that CKS gives: CLUSTER-control-..., CLUSTER-node-... The API shows only which are of etcd.
func roleOf(k *cloudstack.KubernetesCluster, vm cloudstack.ClusterVM) string {
	switch {
	case vm.Etcd:
		return "etcd"
	case strings.HasPrefix(vm.Name, k.Name+"-control-"):
		return "control"
	}
	return "worker"
}

// events are a cluster's events, newest first; why says why there are none to see. They only explain.
func (s *Service) events(ctx context.Context, id string) (events []cloudstack.Event, why string) {
	events, err := s.API.ListEvents(ctx, cloudstack.ClusterResource, id, s.Project)
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		return nil, "the role may not list events"
	case err != nil:
		return nil, err.Error()
	}
	return events, ""
}

// nextStep says what a person can do with a cluster in its state.
func nextStep(k *cloudstack.KubernetesCluster) string {
	switch {
	case k.Type == cloudstack.ExternalManaged:
		return "CloudStack only lists this cluster; csccm register and its controller keep the list"
	case inProgress(k.State):
		return "csccm cks show " + k.Name + " --watch follows it"
	}
	switch k.State {
	case stateRunning:
		return "csccm cks kubeconfig " + k.Name + " writes the configuration for kubectl"
	case stateStopped:
		return "csccm cks start " + k.Name
	case stateAlert:
		return "look at the state of the nodes; csccm cks stop " + k.Name + " and csccm cks start " + k.Name + " start them again"
	case stateError:
		return "correct what the events name; csccm cks delete " + k.Name + " removes what is left, then create it again"
	}
	return ""
}

// Write prints it for a person.
func (c *ClusterInfo) Write(w io.Writer, style report.Style) error {
	k := &c.Cluster
	var b strings.Builder
	for _, line := range [][2]string{
		{"Name", k.Name},
		{"ID", k.ID},
		{"State", k.State},
		{"Type", k.Type},
		{"Version", k.Version},
		{"Zone", k.Zone},
		{"Network", k.Network},
		{"Endpoint", k.Endpoint},
		{"Address", k.Address},
		{"Control nodes", strconv.Itoa(k.ControlNodes) + ofOffering(cmp.Or(k.ControlOffering, k.Offering))},
		{"Workers", strconv.Itoa(k.Workers) + ofOffering(cmp.Or(k.WorkerOffering, k.Offering))},
		{"Autoscaling", k.Autoscaling.String()},
		{"CSI driver", onOff(k.CSI)},
		{"Key pair", k.KeyPair},
		{"Created", k.Created},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%-15s%s\n", line[0]+":", line[1])
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := c.writeTables(w, style); err != nil || c.Next == "" {
		return err
	}
	_, err := io.WriteString(w, "\n"+style.Indented("Next: ", 6, c.Next))
	return err
}

func (c *ClusterInfo) writeTables(w io.Writer, style report.Style) error {
	nodes := report.Table{Header: []string{"NODE", "ROLE", "STATE", "VERSION", "ID"}}
	for _, n := range c.Nodes {
		nodes.Add(n.Name, n.Role, n.State, dash(n.Version), n.ID)
	}
	events := report.Table{Header: []string{"EVENT", "LEVEL", "TYPE", "DESCRIPTION"}}
	for _, e := range c.Events {
		events.Add(e.Created, e.Level, e.Type, e.Description)
	}
	for _, t := range []*report.Table{&nodes, &events} {
		if len(t.Rows) == 0 {
			continue
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := t.Write(w, style); err != nil {
			return err
		}
	}
	if c.EventsUnread != "" {
		_, err := fmt.Fprintf(w, "\nEvents: not read, %s\n", c.EventsUnread)
		return err
	}
	return nil
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
