// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/version"
)

// create prepares the creation of a cluster. If a cluster of that name exists and matches the options, its creation is
// followed if it still runs, and nothing is done otherwise. A cluster of that name with other parameters is an error.
func create(ctx context.Context, t *task, name string) error {
	all, err := t.clusters(ctx)
	if err != nil {
		return err
	}

	for _, k := range all {
		if strings.EqualFold(k.Name, name) { // the names of VMs ignore case too
			t.found(&k)
		}
	}

	if t.cluster == nil {
		if err := t.askWhatIsMissing(ctx); err != nil {
			return err
		}
	}

	q, different, err := t.request(ctx, name)
	if err != nil {
		return err
	}

	if t.Install != nil {
		t.after = []engine.Step{{Name: "install into cluster " + name, Do: t.install}}
	}

	// A new cluster has the requested parameters as soon as it runs.
	t.differs = func(*cloudapi.KubernetesCluster) []Change { return nil }
	t.facts = func(in *ckscheck.Reader) (*ckscheck.Facts, error) { return in.Create(ctx, q) }
	t.rules = func(f *ckscheck.Facts) []ckscheck.Finding { return ckscheck.Create(f, q) }
	t.params = q.Params()

	k := t.cluster
	if k == nil {
		t.plan.Changes = different
		if t.Install != nil {
			t.plan.Changes = append(t.plan.Changes, Change{What: "when it runs, install", To: "csccm"})
		}
	} else if len(different) > 0 && k.Type == cloudapi.CloudManaged {
		texts := cloudapi.Names(different,
			func(c *Change) string { return fmt.Sprintf("%s %s, not %s", c.What, dash(c.From), c.To) })
		return report.Usage(
			"choose another name, or change that cluster with csccm cks scale or csccm cks upgrade",
			"cluster %s already exists in state %s, with other parameters: %s; nothing was changed",
			k.Name, k.State, strings.Join(texts, ", "),
		)
	}

	return nil
}

// request resolves the names in the options to ids. It returns the request to CloudStack, and how the request differs
// from the existing cluster, if there is one. Parameters that the API does not show, such as the root disk and the
// address of the control plane, are compared only for a new cluster.
func (t *task) request(ctx context.Context, name string) (q cloudapi.CreateClusterRequest, c changes, err error) {
	zone, err := t.zone(ctx, t.Zone)
	if err != nil {
		return q, nil, err
	}

	k, isNew := t.cluster, t.cluster == nil
	if isNew {
		k = &cloudapi.KubernetesCluster{}
		t.ControlNodes, t.Size = max(t.ControlNodes, 1), max(t.Size, 1)
		// CloudStack requires an offering for all nodes even if each type of node has its own.
		if t.Offering = cmp.Or(t.Offering, t.WorkerOffering); t.Offering == "" {
			known, err := t.API.ListServiceOfferings(ctx, zone.ID)
			if err != nil {
				return q, nil, explain("list the service offerings", err)
			}
			_, err = pick("offering", " with --offering", "", known, namesOfOffering)
			return q, nil, err
		}
	}

	v := &cloudapi.KubernetesVersion{}
	if isNew || t.Version != "" {
		if v, err = t.version(ctx, zone); err != nil {
			return q, nil, err
		}
	}

	o, err := t.offerings(ctx, zone.ID)
	if err != nil {
		return q, nil, err
	}

	n, err := named("network", t.Network, func() ([]cloudstack.Network, error) {
		return t.API.ListNetworks(ctx, cloudstack.NetworkQuery{ZoneID: zone.ID, ProjectID: t.Project})
	}, func(n *cloudstack.Network) []string { return []string{n.ID, n.Name} })
	if err != nil {
		return q, nil, err
	}

	q = t.CreateClusterRequest
	q.ZoneID = zone.ID
	if q.CNIConfigID, q.CNIParams, err = t.cni(ctx); err != nil {
		return q, nil, err
	}

	if q.Registry, err = readRegistry(t.RegistryFile); err != nil {
		return q, nil, err
	}

	templates, err := t.templates(ctx, &q, isNew)
	if err != nil {
		return q, nil, err
	}

	q.Name, q.ProjectID, q.VersionID, q.NetworkID = name, t.Project, v.ID, n.ID
	q.OfferingID = o.all.ID
	q.ControlOfferingID = o.control.ID
	q.WorkerOfferingID = o.worker.ID
	q.EtcdOfferingID = o.etcd.ID

	c = c.add("zone", k.ZoneName, zone.Name, k.ZoneID == zone.ID).
		add("version", k.Version, v.Name, v.ID == "" || k.VersionID == v.ID).
		count("control nodes", k.ControlNodes, t.ControlNodes).
		count("workers", k.Size, t.Size).
		count("etcd nodes", k.EtcdNodes, t.EtcdNodes)
	c = append(c, o.changes(k)...).
		add("offering of etcd nodes", k.EtcdOfferingName, o.etcd.Name, o.etcd.ID == "" || o.etcd.ID == k.EtcdOfferingID)
	c = append(c, templates...).
		add("network", k.NetworkName, cmp.Or(n.Name, "a new one, "+name+"-network"),
			!isNew && (n.ID == "" || k.NetworkID == n.ID)).
		add("key pair", k.KeyPair, t.KeyPair, t.KeyPair == "" || k.KeyPair == t.KeyPair).
		add("CNI configuration", k.CNIConfigName, t.CNI, k.CNIConfigID == q.CNIConfigID).
		add("hypervisor", "", q.Hypervisor, !isNew || q.Hypervisor == "").
		add("AS number", "", strconv.Itoa(q.ASNumber), !isNew || q.ASNumber == 0).
		add("registry", "", q.Registry.URL+", as "+q.Registry.Username, !isNew || q.Registry.URL == "").
		add("CSI driver", "", "on", k.CSI || !t.EnableCSI).
		add("control plane", "", t.ExternalLBAddress, !isNew || t.ExternalLBAddress == "").
		add("root disk", "", strconv.Itoa(t.RootDiskGiB)+" GiB", !isNew || t.RootDiskGiB == 0)

	return q, c, nil
}

// templates resolves the names of templates. For a cluster that exists it compares nothing, because CloudStack does not
// show which template each kind of node has.
func (t *task) templates(ctx context.Context, q *cloudapi.CreateClusterRequest, isNew bool) (c changes, err error) {
	list := func() ([]cloudapi.Template, error) { return t.API.ListCKSTemplates(ctx, q.ZoneID) }
	for _, f := range []struct {
		noun, want string
		to         *string
	}{
		{"control template", t.ControlTemplate, &q.ControlTemplateID},
		{"worker template", t.WorkerTemplate, &q.WorkerTemplateID},
		{"etcd template", t.EtcdTemplate, &q.EtcdTemplateID},
	} {
		found, err := named(f.noun, f.want, list, func(t *cloudapi.Template) []string { return []string{t.ID, t.Name} })
		if err != nil {
			return nil, err
		}
		*f.to = found.ID
		c = c.add(f.noun, "", found.Name, !isNew || found.ID == "")
	}

	return c, nil
}

// version returns the version that --version names, or the newest that can be used.
func (t *task) version(ctx context.Context, zone *cloudstack.Zone) (*cloudapi.KubernetesVersion, error) {
	versions, err := t.versions(ctx, zone.ID)
	if err != nil {
		return nil, err
	}

	if t.Version != "" {
		return pick("version", " with --version", t.Version, versions, namesOfVersion)
	}

	for _, v := range versions {
		if v.State == "Enabled" && v.ISOState == "Ready" {
			return &v, nil
		}
	}

	return nil, report.Usage(
		"csccm cks versions shows them; an administrator registers one: "+version.Pages+"docs/cks.md#a-version",
		"zone %s has no Kubernetes version that is Enabled and whose ISO is Ready", zone.Name,
	)
}

// install installs csccm into the new cluster, with the kubeconfig that CloudStack returns.
func (t *task) install(ctx context.Context) error {
	kubeconfig, err := t.API.KubernetesClusterConfig(ctx, t.plan.ID)
	if err == nil {
		err = t.Install(ctx, kubeconfig)
	}
	if err != nil {
		return fmt.Errorf("cluster %s runs, but csccm is not ready there; run the same command again to continue "+
			"the install: %w", t.plan.Name, err)
	}

	t.plan.Done = true
	t.Note("installed csccm")
	return nil
}
