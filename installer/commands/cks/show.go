// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// autoscaling returns the range of workers for autoscaling as text; "off" if autoscaling is off.
func autoscaling(on bool, low, high int) string {
	if !on {
		return "off"
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// ClusterList is the result of csccm cks list. In all results, the fields of clusters, versions, nodes and events are
// named as in the CloudStack API.
type ClusterList struct {
	SchemaVersion int                          `json:"schemaVersion"`
	Clusters      []cloudapi.KubernetesCluster `json:"clusters"`
}

// List lists the clusters.
func (s *Service) List(ctx context.Context) (*ClusterList, error) {
	all, err := s.clusters(ctx)
	if err == nil && len(all) == 0 {
		s.Progress.Info("there are no clusters; --project names those of a project")
	}
	return &ClusterList{schemaVersion, append([]cloudapi.KubernetesCluster{}, all...)}, err
}

// Write prints the list as a table.
func (l *ClusterList) Write(w io.Writer, style report.Style) error {
	t := report.Table{
		Header: []string{"NAME", "KIND", "STATE", "VERSION", "CONTROL", "WORKERS", "ETCD", "ZONE", "NETWORK",
			"ENDPOINT"},
	}
	for _, k := range l.Clusters {
		workers := strconv.Itoa(k.Size)
		if k.Autoscaling {
			workers += fmt.Sprintf(" (%d-%d)", k.MinSize, k.MaxSize)
		}

		t.Add(k.Name, cmp.Or(k.Type, cloudapi.CloudManaged), k.State, dash(k.Version), strconv.Itoa(k.ControlNodes),
			workers, strconv.Itoa(k.EtcdNodes), k.ZoneName, dash(k.NetworkName), dash(k.Endpoint))
	}
	return t.Write(w, style)
}

func dash(s string) string { return cmp.Or(s, "-") }

// VersionList is the result of csccm cks versions.
type VersionList struct {
	SchemaVersion int                          `json:"schemaVersion"`
	Versions      []cloudapi.KubernetesVersion `json:"versions"`
}

// Versions lists the Kubernetes versions of the zone with that name or id; all versions if zone is "".
func (s *Service) Versions(ctx context.Context, zone string) (*VersionList, error) {
	if zone != "" {
		z, err := s.zone(ctx, zone)
		if err != nil {
			return nil, err
		}
		zone = z.id
	}

	all, err := s.versions(ctx, zone)
	return &VersionList{schemaVersion, append([]cloudapi.KubernetesVersion{}, all...)}, err
}

// Write prints the list as a table.
func (l *VersionList) Write(w io.Writer, style report.Style) error {
	t := report.Table{Header: []string{"VERSION", "NAME", "STATE", "ISO", "ZONE", "ARCH", "MIN CPUS", "MIN MEMORY"}}
	for _, v := range l.Versions {
		t.Add(v.Semantic, v.Name, v.State, cmp.Or(v.ISOState, "gone"), cmp.Or(v.ZoneName, "all"), dash(v.Arch),
			strconv.Itoa(v.MinCPUs), strconv.Itoa(v.MinMemoryMiB)+" MiB")
	}
	return t.Write(w, style)
}

// ClusterInfo is the result of csccm cks show.
type ClusterInfo struct {
	SchemaVersion int                        `json:"schemaVersion"`
	Cluster       cloudapi.KubernetesCluster `json:"cluster"`
	Nodes         []cloudapi.ClusterVM       `json:"nodes"`
	Events        []cloudapi.Event           `json:"events"` // newest first; Write prints ten
	// EventsUnread says why the events could not be read.
	EventsUnread string `json:"eventsUnread,omitempty"`
	// Next suggests the next command.
	Next string `json:"next,omitempty"`
}

// Show describes the cluster with that name or id. If its events cannot be read, for example because the role may not
// list them, Show says so and returns no error.
func (s *Service) Show(ctx context.Context, name string) (*ClusterInfo, error) {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return nil, err
	}

	out := &ClusterInfo{
		SchemaVersion: schemaVersion,
		Cluster:       *k,
		Nodes:         append([]cloudapi.ClusterVM{}, k.Nodes...),
		Events:        []cloudapi.Event{},
		Next:          nextStep(k),
	}

	events, err := s.API.ListClusterEvents(ctx, k.ID, s.Project)
	if err != nil {
		out.EventsUnread = err.Error()
	}

	out.Events = append(out.Events, events...)
	return out, nil
}

// roleOf returns the role of a VM. The API only shows which VMs are etcd nodes or were added, so roleOf tells control
// nodes and workers apart by the names that CKS gives: CLUSTER-control-... and CLUSTER-node-...
func roleOf(k *cloudapi.KubernetesCluster, vm cloudapi.ClusterVM) string {
	switch {
	case vm.Etcd:
		return "etcd"
	case vm.External:
		return "worker (added)"
	case strings.HasPrefix(vm.Name, k.Name+"-control-"):
		return "control"
	}
	return "worker"
}

// next is what a user can do with a cluster, by its state; %s is the name of the cluster.
var next = map[string]string{
	stateRunning: "csccm cks kubeconfig %s writes the configuration for kubectl",
	stateStopped: "csccm cks start %s",
	stateAlert:   "look at the state of the nodes; csccm cks stop %[1]s and csccm cks start %[1]s start them again",
	stateError:   "correct what the events name; csccm cks delete %s removes what is left, then create it again",
}

// nextStep suggests what to do with a cluster in its state.
func nextStep(k *cloudapi.KubernetesCluster) string {
	switch {
	case k.Type == cloudstack.ExternalManaged:
		return "CloudStack only lists this cluster; its controller keeps the list (chart value registerCluster)"
	case next[k.State] != "":
		return fmt.Sprintf(next[k.State], k.Name)
	}
	return "csccm cks show " + k.Name + " --watch follows it"
}

// Write prints the cluster as text.
func (c *ClusterInfo) Write(w io.Writer, style report.Style) error {
	k := &c.Cluster

	var b strings.Builder
	_ = (&ClusterList{Clusters: []cloudapi.KubernetesCluster{*k}}).Write(&b, style)

	table := report.Table{Header: []string{"MADE WITH", ""}}
	for _, part := range []struct{ what, value string }{
		{"offering", k.OfferingName},
		{"offering of control nodes", k.ControlOfferingName},
		{"offering of workers", k.WorkerOfferingName},
		{"offering of etcd nodes", k.EtcdOfferingName},
		{"template", k.TemplateName},
		{"CNI configuration", k.CNIConfigName},
		{"key pair", k.KeyPair},
	} {
		if part.value != "" {
			table.Add(part.what, part.value)
		}
	}

	nodes := report.Table{Header: []string{"NODE", "ROLE", "STATE", "VERSION", "ID"}}
	for _, n := range c.Nodes {
		nodes.Add(n.Name, roleOf(k, n), n.State, dash(n.Version), n.ID)
	}

	events := report.Table{Header: []string{"EVENT", "LEVEL", "TYPE", "DESCRIPTION"}}
	for _, e := range c.Events[:min(len(c.Events), 10)] {
		events.Add(e.Created, e.Level, e.Type, e.Description)
	}

	for _, t := range []*report.Table{&table, &nodes, &events} {
		if len(t.Rows) > 0 {
			b.WriteString("\n")
			_ = t.Write(&b, style)
		}
	}

	if slices.ContainsFunc(c.Nodes, func(n cloudapi.ClusterVM) bool { return n.External }) {
		b.WriteString("\n" + style.Indented(
			"", 0,
			"Upgrades leave out the added workers that were marked for it (--manual-upgrade); CloudStack does "+
				"not show which.",
		))
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
