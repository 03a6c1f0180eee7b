// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// CreateOptions are what csccm cks create is asked for. Zone, version, offerings and network are names or ids; zero values
// are left to the defaults.
type CreateOptions struct {
	Name, Description                         string
	Zone, Version, Network, KeyPair           string
	Offering, ControlOffering, WorkerOffering string
	Size, ControlNodes, RootDiskGiB           int
	ExternalLB                                string // address of a highly available control plane in a shared network
	CSI                                       bool
	Ignore                                    []string
	// Install installs into the new cluster, by its kubeconfig, what With names; nil installs nothing.
	Install func(ctx context.Context, cluster, kubeconfig string) error
	With    []string
}

// Validate checks what needs no connection.
func (o *CreateOptions) Validate() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"--size", o.Size}, {"--control-nodes", o.ControlNodes}, {"--root-disk", o.RootDiskGiB}} {
		if n.value < 0 {
			return report.Usage(fmt.Sprintf("%s %d is negative", n.flag, n.value), "give a number from 1 on")
		}
	}
	return nil
}

// Create creates a cluster, and follows it until it runs.
func (s *Service) Create(ctx context.Context, o CreateOptions) error {
	all, err := s.clusters(ctx)
	if err != nil {
		return err
	}
	zone, err := s.zoneOf(ctx, o.Zone)
	if err != nil {
		return err
	}
	var existing *cloudstack.KubernetesCluster
	for i := range all {
		if strings.EqualFold(all[i].Name, o.Name) { // the names of its VMs do not differ by case either
			existing = &all[i]
		}
	}
	r, names, err := s.request(ctx, o, zone)
	if err != nil {
		return err
	}
	p, err := planCreate(existing, r, names)
	if err != nil {
		return err
	}
	complete(&r) // after the comparison with a cluster that exists
	if p.Action == ActionChange {
		f, err := s.reader(ctx, nil).Create(ctx, r)
		if err != nil {
			return explain("look at what the cluster needs", err)
		}
		p.Findings = append(p.Findings, preflight.Create(f, r)...)
	}
	op := &task{
		plan: p, ignore: o.Ignore, goal: inState(stateRunning),
		submit: func(ctx context.Context) (cloudstack.Submitted, error) {
			return s.API.CreateKubernetesCluster(ctx, r)
		},
		done: func(k *cloudstack.KubernetesCluster) {
			for _, text := range ignored(k, r) {
				s.Progress.Warn("%s", text)
			}
		},
	}
	if o.Install != nil {
		p.With, p.Done = o.With, false
		op.after = []engine.Step{{Name: "install into cluster " + o.Name, Do: func(ctx context.Context, note engine.Note) error {
			return s.install(ctx, p, o, note)
		}}}
	}
	return s.run(ctx, op)
}

// complete fills what CloudStack requires and nobody has asked for.
func complete(r *cloudstack.CreateClusterRequest) {
	r.ControlNodes, r.Size = max(r.ControlNodes, 1), max(r.Size, 1)
}

// zoneOf returns the zone of that name or id, or the only one.
func (s *Service) zoneOf(ctx context.Context, want string) (*cloudstack.Zone, error) {
	zones, err := s.API.ListZones(ctx)
	if err != nil {
		return nil, explain("list the zones", err)
	}
	if want == "" && len(zones) == 1 {
		return &zones[0], nil
	}
	if want == "" {
		known := make([]string, len(zones))
		for i := range zones {
			known[i] = zones[i].Name
		}
		return nil, report.Usage("the zone of the cluster is not given", "name one of these with --zone: "+some(known))
	}
	return pick("zone", "--zone", want, zones, nameOfZone)
}

// request resolves the names of the options. names are those of the ids that are in the request.
func (s *Service) request(ctx context.Context, o CreateOptions, zone *cloudstack.Zone) (cloudstack.CreateClusterRequest, map[string]string, error) {
	names := map[string]string{zone.ID: zone.Name}
	r := cloudstack.CreateClusterRequest{
		Name: o.Name, ZoneID: zone.ID, ControlNodes: o.ControlNodes, Size: o.Size, Description: o.Description, ProjectID: s.Project, KeyPair: o.KeyPair,
		ExternalLBAddress: o.ExternalLB, RootDiskGiB: o.RootDiskGiB, EnableCSI: o.CSI,
	}
	versions, err := s.versions(ctx, zone.ID)
	if err != nil {
		return r, nil, err
	}
	v, err := versionFor(versions, o.Version, zone.Name)
	if err != nil {
		return r, nil, err
	}
	if r.VersionID, names[v.ID] = v.ID, v.Name; o.Version == "" {
		names[byDefault] = v.ID // nobody asked for it
	}
	offerings, err := s.offerings(ctx, zone.ID)
	if err != nil {
		return r, nil, err
	}
	if o.Offering == "" && (o.ControlOffering == "" || o.WorkerOffering == "") {
		return r, nil, report.Usage("the offering of the nodes is not given", "name one of these with --offering: "+large(offerings, v))
	}
	// CloudStack wants one for all even where each type has its own.
	o.Offering = cmp.Or(o.Offering, o.WorkerOffering)
	for _, f := range []struct {
		flag, want string
		to         *string
	}{{"--offering", o.Offering, &r.OfferingID}, {"--control-offering", o.ControlOffering, &r.ControlOfferingID}, {"--worker-offering", o.WorkerOffering, &r.WorkerOfferingID}} {
		if err := pickOffering(offerings, f.flag, f.want, f.to, names); err != nil {
			return r, nil, err
		}
	}
	if o.Network != "" {
		networks, err := s.API.ListNetworks(ctx, cloudstack.NetworkQuery{ZoneID: zone.ID, ProjectID: s.Project})
		if err != nil {
			return r, nil, explain("list the networks", err)
		}
		n, err := pick("network", "--network", o.Network, networks, nameOfNetwork)
		if err != nil {
			return r, nil, err
		}
		r.NetworkID, names[n.ID] = n.ID, n.Name
	}
	return r, names, nil
}

// versionFor returns the version that is asked for, or the newest that can be used.
func versionFor(versions []cloudstack.KubernetesVersion, want, zone string) (*cloudstack.KubernetesVersion, error) {
	if want != "" {
		return pick("version", "--version", want, versions, nameOfVersion)
	}
	for i := range versions { // the newest first
		if v := &versions[i]; v.State == cloudstack.VersionEnabled && v.ISOState == isoReady {
			return v, nil
		}
	}
	return nil, report.Usage("zone "+zone+" has no Kubernetes version that is Enabled and whose ISO is Ready",
		"csccm cks versions shows them; an administrator registers one with csccm cks versions add")
}

// large names the offerings that are large enough for a version.
func large(offerings []cloudstack.ServiceOffering, v *cloudstack.KubernetesVersion) string {
	var names []string
	for _, o := range offerings {
		if o.CPUs >= v.MinCPUs && o.MemoryMiB >= v.MinMemoryMiB {
			names = append(names, o.Name)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("none has %d CPUs and %d MiB, an administrator must make one", v.MinCPUs, v.MinMemoryMiB)
	}
	return some(names)
}

// byDefault is the key of the id of a version that nobody has asked for, among the names of a request.
const byDefault = "default"

// planCreate decides about a cluster. existing is one of its name, or nil. A zero value of the request is a default.
func planCreate(existing *cloudstack.KubernetesCluster, r cloudstack.CreateClusterRequest, names map[string]string) (*Plan, error) {
	if existing == nil {
		p := newPlan("create", &cloudstack.KubernetesCluster{Name: r.Name})
		complete(&r)
		for _, c := range [][2]string{
			{"zone", names[r.ZoneID]},
			{"version", names[r.VersionID]},
			{"control nodes", strconv.Itoa(r.ControlNodes) + ofOffering(names[cmp.Or(r.ControlOfferingID, r.OfferingID)])},
			{"workers", strconv.Itoa(r.Size) + ofOffering(names[cmp.Or(r.WorkerOfferingID, r.OfferingID)])},
			{"network", cmp.Or(names[r.NetworkID], "a new one, "+r.Name+"-network")},
			{"control plane", r.ExternalLBAddress},
			{"key pair", r.KeyPair},
			{"root disk", sizeText(r.RootDiskGiB)},
			{"CSI driver", onOff(r.EnableCSI)},
		} {
			p.change(c[0], "", c[1])
		}
		return p, nil
	}
	k := existing
	if different := differences(k, r, names); len(different) > 0 {
		return nil, &report.Error{
			What: fmt.Sprintf("there is a cluster %s already, state %s, with other parameters: %s; nothing was changed", k.Name, k.State, strings.Join(different, ", ")),
			Fix:  "choose another name, or change that cluster with csccm cks scale or csccm cks upgrade", Code: report.ExitUsage,
		}
	}
	p := newPlan("create", k)
	if err := p.running(k, "Created", "Starting"); err != nil || p.Action == ActionFollow {
		return p, err
	}
	if k.State == stateRunning {
		return p.none("it runs, as it was asked for"), nil
	}
	return nil, &report.Error{
		What: fmt.Sprintf("there is a cluster %s already, in state %s; nothing was changed", k.Name, k.State),
		Fix:  "csccm cks show " + k.Name + " shows its events; " + nextStep(k),
	}
}

func sizeText(gib int) string {
	if gib == 0 {
		return ""
	}
	return strconv.Itoa(gib) + " GiB"
}

// differences compares a cluster with a request. What nobody has asked for does not differ; the root disk and the address of
// the control plane are not shown by the API.
func differences(k *cloudstack.KubernetesCluster, r cloudstack.CreateClusterRequest, names map[string]string) []string {
	var out []string
	differ := func(what, is, asked string, same bool) {
		if !same {
			out = append(out, fmt.Sprintf("%s %s, not %s", what, dash(is), asked))
		}
	}
	name := func(id string) string { return cmp.Or(names[id], id) }
	differ("type", k.Type, cloudstack.CloudManaged, k.Type == cloudstack.CloudManaged)
	differ("zone", k.ZoneName, name(r.ZoneID), k.ZoneID == r.ZoneID)
	differ("version", k.Version, name(r.VersionID), k.VersionID == r.VersionID || names[byDefault] == r.VersionID)
	for _, o := range offeringsOf(k, cloudstack.ScaleClusterRequest{OfferingID: r.OfferingID, ControlOfferingID: r.ControlOfferingID, WorkerOfferingID: r.WorkerOfferingID}) {
		differ(o.what, o.fromName, name(o.to), o.to == o.from)
	}
	differ("network", k.NetworkName, name(r.NetworkID), r.NetworkID == "" || k.NetworkID == r.NetworkID)
	differ("key pair", k.KeyPair, r.KeyPair, r.KeyPair == "" || k.KeyPair == r.KeyPair)
	differ("control nodes", strconv.Itoa(k.ControlNodes), strconv.Itoa(r.ControlNodes), r.ControlNodes == 0 || k.ControlNodes == r.ControlNodes)
	differ("workers", strconv.Itoa(k.Size), strconv.Itoa(r.Size), r.Size == 0 || k.Size == r.Size)
	differ("CSI driver", onOff(k.CSI), "on", k.CSI || !r.EnableCSI)
	return out
}

// ignored names what a CloudStack of an older release has left out of a request.
func ignored(k *cloudstack.KubernetesCluster, r cloudstack.CreateClusterRequest) []string {
	var out []string
	if r.EnableCSI && !k.CSI {
		out = append(out, "the CSI driver is not switched on: CloudStack has it from 4.22 on")
	}
	for _, o := range offeringsOf(k, cloudstack.ScaleClusterRequest{ControlOfferingID: r.ControlOfferingID, WorkerOfferingID: r.WorkerOfferingID}) {
		if o.to != "" && o.to != o.from {
			out = append(out, o.what+" is "+o.fromName+": CloudStack has offerings by type of node from 4.21 on")
		}
	}
	return out
}

// install hands the new cluster's kubeconfig to what installs into it.
func (s *Service) install(ctx context.Context, p *Plan, o CreateOptions, note engine.Note) error {
	kubeconfig, err := s.API.KubernetesClusterConfig(ctx, p.ID)
	if err != nil {
		return &report.Error{
			What: "cluster " + p.Cluster + " runs, but CloudStack does not give its kubeconfig: nothing was installed", Err: err,
			Fix: "run the same command again: it goes on with the install",
		}
	}
	if err := o.Install(ctx, p.Cluster, kubeconfig); err != nil {
		fix := "correct that, then run the same command again: it goes on with the install"
		var remedied interface{ Remedy() string }
		if errors.As(err, &remedied) && remedied.Remedy() != "" {
			fix = remedied.Remedy() + "; then run the same command again: it goes on with the install"
		}
		return &report.Error{What: fmt.Sprintf("cluster %s runs, but %s is not ready there", p.Cluster, strings.Join(p.With, ", ")), Err: err, Fix: fix}
	}
	p.Done = true
	note("installed %s", strings.Join(p.With, ", "))
	return nil
}
