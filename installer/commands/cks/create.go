// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/version"
)

// CreateOptions are what csccm cks create is asked for. Zone, version, offerings and network are names or ids; zero values
// are left to the defaults.
type CreateOptions struct {
	Name, Description               string
	Zone, Version, Network, KeyPair string
	Offerings                       Offerings
	Size, ControlNodes, RootDiskGiB int
	ExternalLB                      string // address of a highly available control plane in a shared network
	CSI                             bool
	// Install installs into the new cluster, by its kubeconfig, what With names; nil installs nothing.
	Install func(ctx context.Context, cluster, kubeconfig string) error
	With    []string
}

// request is what CloudStack is asked for, with the names of the ids in it.
type request struct {
	cloudapi.CreateClusterRequest
	names map[string]string
	// newest reports that nobody asked for the version.
	newest bool
}

// Create creates a cluster, and follows it until it runs. A cluster of that name that is as asked for is followed, or left.
func (s *Service) Create(ctx context.Context, o CreateOptions) error {
	all, err := s.clusters(ctx)
	if err != nil {
		return err
	}
	r, err := s.request(ctx, o)
	if err != nil {
		return err
	}
	var existing *cloudapi.KubernetesCluster
	for i := range all {
		if strings.EqualFold(all[i].Name, o.Name) { // the names of its VMs do not differ by case either
			existing = &all[i]
		}
	}
	p, err := planCreate(existing, r)
	if err != nil {
		return err
	}
	q := r.complete()
	t := &task{
		Service: s, plan: p, goal: inState(stateRunning),
		preflight: func(in *ckscheck.Reader) ([]ckscheck.Finding, error) {
			f, err := in.Create(ctx, q)
			return ckscheck.Create(f, q), err
		},
		submit: func(ctx context.Context) (cloudstack.Submitted, error) { return s.API.CreateKubernetesCluster(ctx, q) },
	}
	if o.Install != nil {
		p.With, p.Done = o.With, false
		t.after = []engine.Step{{Name: "install into cluster " + o.Name, Do: func(ctx context.Context, note engine.Note) error {
			return s.install(ctx, p, o, note)
		}}}
	}
	return t.run(ctx)
}

// complete fills in what CloudStack requires and nobody has asked for.
func (r request) complete() cloudapi.CreateClusterRequest {
	r.ControlNodes, r.Size = max(r.ControlNodes, 1), max(r.Size, 1)
	return r.CreateClusterRequest
}

// zoneOf returns the zone of that name or id, or the only one.
func (s *Service) zoneOf(ctx context.Context, want string) (*cloudstack.Zone, error) {
	zones, err := s.API.ListZones(ctx)
	if err != nil {
		return nil, explain("list the zones", err)
	}
	switch {
	case want != "":
		return pick("zone", "--zone", want, zones, nameOfZone)
	case len(zones) == 1:
		return &zones[0], nil
	}
	return nil, report.Usage("the zone of the cluster is not given",
		"name one of these with --zone: "+some(cloudapi.Names(zones, func(z *cloudstack.Zone) string { return z.Name })))
}

// request resolves the names of the options.
func (s *Service) request(ctx context.Context, o CreateOptions) (request, error) {
	r := request{names: map[string]string{}, newest: o.Version == ""}
	zone, err := s.zoneOf(ctx, o.Zone)
	if err != nil {
		return r, err
	}
	r.names[zone.ID] = zone.Name
	r.CreateClusterRequest = cloudapi.CreateClusterRequest{
		Name: o.Name, ZoneID: zone.ID, ControlNodes: o.ControlNodes, Size: o.Size, Description: o.Description, ProjectID: s.Project, KeyPair: o.KeyPair,
		ExternalLBAddress: o.ExternalLB, RootDiskGiB: o.RootDiskGiB, EnableCSI: o.CSI,
	}
	versions, err := s.versions(ctx, zone.ID)
	if err != nil {
		return r, err
	}
	v, err := versionFor(versions, o.Version, zone.Name)
	if err != nil {
		return r, err
	}
	r.VersionID, r.names[v.ID] = v.ID, v.Name
	offerings, err := s.API.ListServiceOfferings(ctx, zone.ID)
	if err != nil {
		return r, explain("list the service offerings", err)
	}
	if o.Offerings.All == "" && (o.Offerings.Control == "" || o.Offerings.Worker == "") {
		large := strings.Join(ckscheck.Large(offerings, v), ", ")
		return r, report.Usage("the offering of the nodes is not given", "name one of these with --offering: "+
			cmp.Or(large, fmt.Sprintf("none has %d CPUs and %d MiB, an administrator must make one", v.MinCPUs, v.MinMemoryMiB)))
	}
	o.Offerings.All = cmp.Or(o.Offerings.All, o.Offerings.Worker) // CloudStack wants one for all even where each type has its own
	if err := o.Offerings.pick(offerings, r.names, &r.OfferingID, &r.ControlOfferingID, &r.WorkerOfferingID); err != nil || o.Network == "" {
		return r, err
	}
	networks, err := s.API.ListNetworks(ctx, cloudstack.NetworkQuery{ZoneID: zone.ID, ProjectID: s.Project})
	if err != nil {
		return r, explain("list the networks", err)
	}
	n, err := pick("network", "--network", o.Network, networks, func(n *cloudstack.Network) named { return named{n.ID, []string{n.Name}, n.Type} })
	if err == nil {
		r.NetworkID, r.names[n.ID] = n.ID, n.Name
	}
	return r, err
}

// versionFor returns the version that is asked for, or the newest that can be used.
func versionFor(versions []cloudapi.KubernetesVersion, want, zone string) (*cloudapi.KubernetesVersion, error) {
	if want != "" {
		return pick("version", "--version", want, versions, nameOfVersion)
	}
	for i := range versions { // the newest first
		if v := &versions[i]; v.State == cloudapi.VersionEnabled && v.ISOState == "Ready" {
			return v, nil
		}
	}
	return nil, report.Usage("zone "+zone+" has no Kubernetes version that is Enabled and whose ISO is Ready",
		"csccm cks versions shows them; an administrator registers one: "+version.Pages+"docs/cks.md#a-version")
}

// planCreate decides about a cluster. existing is one of its name, or nil.
func planCreate(existing *cloudapi.KubernetesCluster, r request) (*Plan, error) {
	k := existing
	if k == nil {
		p := opCreate.plan(&cloudapi.KubernetesCluster{Name: r.Name})
		for _, x := range r.parameters(&cloudapi.KubernetesCluster{}) {
			p.change(x.what, "", x.asked)
		}
		return p, nil
	}
	p := opCreate.plan(k)
	if err := opCreate.decide(p, k); err != nil {
		return nil, err
	}
	var different []string
	for _, x := range r.parameters(k) {
		if !x.same {
			different = append(different, fmt.Sprintf("%s %s, not %s", x.what, dash(x.is), x.asked))
		}
	}
	switch {
	case len(different) > 0:
		return nil, report.Usage(
			fmt.Sprintf("there is a cluster %s already, state %s, with other parameters: %s; nothing was changed", k.Name, k.State, strings.Join(different, ", ")),
			"choose another name, or change that cluster with csccm cks scale or csccm cks upgrade")
	case p.Action == ActionFollow:
	case k.State == stateRunning:
		p.nothing("it runs, as it was asked for")
	default:
		return nil, &report.Error{
			What: fmt.Sprintf("there is a cluster %s already, in state %s; nothing was changed", k.Name, k.State),
			Fix:  "csccm cks show " + k.Name + " shows its events; " + nextStep(k),
		}
	}
	return p, nil
}

// parameter is one of a cluster, and what is asked of it.
type parameter struct {
	what, is, asked string
	same            bool // nobody asked for another value
}

// parameters compares a cluster with the request. The API does not show the root disk and the address of the control plane.
func (r request) parameters(k *cloudapi.KubernetesCluster) []parameter {
	count := func(what string, is, asked int) parameter {
		return parameter{what, strconv.Itoa(is), strconv.Itoa(max(asked, 1)), asked == 0 || is == asked}
	}
	offering := func(o offeringChange) parameter {
		return parameter{o.what, o.fromName, cmp.Or(r.names[o.to], o.to), o.to == o.from}
	}
	offerings := offeringsOf(k, cloudapi.ScaleClusterRequest{
		OfferingID: r.OfferingID, ControlOfferingID: r.ControlOfferingID, WorkerOfferingID: r.WorkerOfferingID,
	})
	disk := ""
	if r.RootDiskGiB > 0 {
		disk = strconv.Itoa(r.RootDiskGiB) + " GiB"
	}
	return []parameter{
		{"zone", k.ZoneName, r.names[r.ZoneID], k.ZoneID == r.ZoneID},
		{"version", k.Version, r.names[r.VersionID], r.newest || k.VersionID == r.VersionID},
		count("control nodes", k.ControlNodes, r.ControlNodes), offering(offerings[0]),
		count("workers", k.Size, r.Size), offering(offerings[1]),
		{"network", k.NetworkName, cmp.Or(r.names[r.NetworkID], "a new one, "+r.Name+"-network"), r.NetworkID == "" || k.NetworkID == r.NetworkID},
		{"control plane", "", r.ExternalLBAddress, true},
		{"key pair", k.KeyPair, r.KeyPair, r.KeyPair == "" || k.KeyPair == r.KeyPair},
		{"root disk", "", disk, true},
		{"CSI driver", onOff(k.CSI), onOff(r.EnableCSI), k.CSI || !r.EnableCSI},
	}
}

// install hands the new cluster's kubeconfig to what installs into it.
func (s *Service) install(ctx context.Context, p *Plan, o CreateOptions, note engine.Note) error {
	const again = "run the same command again: it goes on with the install"
	kubeconfig, err := s.API.KubernetesClusterConfig(ctx, p.ID)
	if err != nil {
		return &report.Error{What: "cluster " + p.Name + " runs, but CloudStack does not give its kubeconfig: nothing was installed", Err: err, Fix: again}
	}
	if err := o.Install(ctx, p.Name, kubeconfig); err != nil {
		fix := "correct that"
		var remedied interface{ Remedy() string }
		if errors.As(err, &remedied) && remedied.Remedy() != "" {
			fix = remedied.Remedy()
		}
		return &report.Error{What: fmt.Sprintf("cluster %s runs, but %s is not ready there", p.Name, strings.Join(p.With, ", ")), Err: err, Fix: fix + "; then " + again}
	}
	p.Done = true
	note("installed %s", strings.Join(p.With, ", "))
	return nil
}
