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
			known, err := t.objects(ctx, offerings, zone.id)
			if err != nil {
				return q, nil, explain("list the offerings", err)
			}
			_, err = pickObject("offering", "", known)
			return q, nil, err
		}
	}

	v := &cloudapi.KubernetesVersion{}
	if isNew || t.Version != "" {
		if v, err = t.version(ctx, zone); err != nil {
			return q, nil, err
		}
	}

	if err := t.resolve(ctx, zone.id); err != nil {
		return q, nil, err
	}

	q = t.CreateClusterRequest
	q.ZoneID = zone.id
	if q.CNIConfigID, q.CNIParams, err = t.cni(ctx); err != nil {
		return q, nil, err
	}

	if q.Registry, err = readRegistry(t.RegistryFile); err != nil {
		return q, nil, err
	}

	network, etcd := t.named["network"], t.named["etcd-offering"]
	q.Name, q.ProjectID, q.VersionID, q.NetworkID = name, t.Project, v.ID, network.id
	q.OfferingID = t.named["offering"].id
	q.ControlOfferingID = t.named["control-offering"].id
	q.WorkerOfferingID = t.named["worker-offering"].id
	q.EtcdOfferingID = etcd.id
	q.ControlTemplateID = t.named["control-template"].id
	q.WorkerTemplateID = t.named["worker-template"].id
	q.EtcdTemplateID = t.named["etcd-template"].id

	c = c.add("zone", k.ZoneName, zone.name, k.ZoneID == zone.id).
		add("version", k.Version, v.Name, v.ID == "" || k.VersionID == v.ID).
		count("control nodes", k.ControlNodes, t.ControlNodes).
		count("workers", k.Size, t.Size).
		count("etcd nodes", k.EtcdNodes, t.EtcdNodes)
	c = append(c, t.offeringChanges(k)...).
		add("offering of etcd nodes", k.EtcdOfferingName, etcd.name, etcd.id == "" || etcd.id == k.EtcdOfferingID)

	// CloudStack does not show which template each kind of node has.
	for _, flag := range []string{"control-template", "worker-template", "etcd-template"} {
		template := t.named[flag]
		c = c.add(strings.ReplaceAll(flag, "-", " "), "", template.name, !isNew || template.id == "")
	}

	c = c.add("network", k.NetworkName, cmp.Or(network.name, "a new one, "+name+"-network"),
		!isNew && (network.id == "" || k.NetworkID == network.id)).
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

// version returns the version that --version names, or the newest that can be used.
func (t *task) version(ctx context.Context, zone *object) (*cloudapi.KubernetesVersion, error) {
	versions, err := t.versions(ctx, zone.id)
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
		"zone %s has no Kubernetes version that is Enabled and whose ISO is Ready", zone.name,
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
