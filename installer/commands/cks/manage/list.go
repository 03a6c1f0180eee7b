// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
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

func viewCluster(k *cloudstack.KubernetesCluster) Cluster {
	out := Cluster{
		Name: k.Name, ID: k.ID, State: k.State, Type: k.Type, Version: k.Version, Zone: k.ZoneName, Network: k.NetworkName, ControlNodes: k.ControlNodes,
		Workers: k.Size, EtcdNodes: k.EtcdNodes, Offering: k.OfferingName, ControlOffering: k.ControlOfferingName, WorkerOffering: k.WorkerOfferingName,
		KeyPair: k.KeyPair, CSI: k.CSI, Endpoint: k.Endpoint, Address: k.IPAddress, Created: k.Created,
	}
	if k.Autoscaling {
		out.Autoscaling = &Range{k.MinSize, k.MaxSize}
	}
	return out
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
	out := &ClusterList{SchemaVersion: schemaVersion, Clusters: make([]Cluster, len(all))}
	for i := range all {
		out.Clusters[i] = viewCluster(&all[i])
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

// Version is a version in results.
type Version struct {
	Name         string `json:"name"`
	ID           string `json:"id"`
	Semantic     string `json:"semanticVersion"`
	State        string `json:"state"`
	ISO          string `json:"iso,omitempty"`
	ISOState     string `json:"isoState,omitempty"` // empty when the ISO is gone
	Zone         string `json:"zone,omitempty"`     // empty: all zones
	Arch         string `json:"arch,omitempty"`
	MinCPUs      int    `json:"minCPUs"`
	MinMemoryMiB int    `json:"minMemoryMiB"`
	HA           bool   `json:"ha"`
	Autoscaling  bool   `json:"autoscaling"`
}

func viewVersion(v *cloudstack.KubernetesVersion) Version {
	return Version{
		Name: v.Name, ID: v.ID, Semantic: v.Semantic, State: v.State, ISO: v.ISOName, ISOState: v.ISOState, Zone: v.ZoneName, Arch: v.Arch,
		MinCPUs: v.MinCPUs, MinMemoryMiB: v.MinMemoryMiB, HA: v.SupportsHA, Autoscaling: v.SupportsAutoscaling,
	}
}

// VersionList is the result of csccm cks versions.
type VersionList struct {
	SchemaVersion int       `json:"schemaVersion"`
	Versions      []Version `json:"versions"`
}

// Versions lists the versions of a zone, by name or id, or all for "".
func (s *Service) Versions(ctx context.Context, zone string) (*VersionList, error) {
	zoneID, err := s.zoneID(ctx, zone)
	if err != nil {
		return nil, err
	}
	all, err := s.versions(ctx, zoneID)
	if err != nil {
		return nil, err
	}
	out := &VersionList{SchemaVersion: schemaVersion, Versions: make([]Version, len(all))}
	for i := range all {
		out.Versions[i] = viewVersion(&all[i])
	}
	return out, nil
}

// Write prints the list for a person.
func (l *VersionList) Write(w io.Writer, style report.Style) error {
	t := report.Table{Header: []string{"VERSION", "NAME", "STATE", "ISO", "ZONE", "ARCH", "MIN CPUS", "MIN MEMORY"}}
	for i := range l.Versions {
		v := &l.Versions[i]
		t.Add(v.Semantic, v.Name, v.State, cmp.Or(v.ISOState, "gone"), cmp.Or(v.Zone, "all"), dash(v.Arch), strconv.Itoa(v.MinCPUs), strconv.Itoa(v.MinMemoryMiB)+" MiB")
	}
	return t.Write(w, style)
}

// zoneID returns the id of a zone by its name or id; "" stays.
func (s *Service) zoneID(ctx context.Context, zone string) (string, error) {
	if zone == "" {
		return "", nil
	}
	zones, err := s.API.ListZones(ctx)
	if err != nil {
		return "", explain("list the zones", err)
	}
	z, err := pick("zone", "--zone", zone, zones, nameOfZone)
	if err != nil {
		return "", err
	}
	return z.ID, nil
}
