// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// States of a cluster.
const (
	stateRunning = "Running"
	stateStopped = "Stopped"
	stateAlert   = "Alert" // the control plane or the number of nodes is not as it must be
	stateError   = "Error" // it could not be started
)

func inProgress(state string) bool {
	return slices.Contains([]string{
		"Created", "Starting", "Stopping", "Scaling", "ScalingStoppedCluster", "Upgrading", "Importing", "RemovingNodes", "Recovering", "Destroying",
	}, state)
}

// Operation is what csccm does with a cluster. All of them go the same way: a plan, one call, and looks at the cluster until
// its state shows that the operation is over.
type Operation struct {
	name    string
	from    []string // states in which CloudStack takes it; nil leaves that to CloudStack
	during  []string // states while CloudStack works on it
	to      []string // states in which it is over; nil: the cluster is gone
	prepare func(ctx context.Context, t *task, name string) error
}

// The operations.
var (
	Create  = Operation{"create", []string{}, []string{"Created", "Starting"}, []string{stateRunning}, create}
	Scale   = Operation{"scale", []string{stateRunning, stateStopped}, []string{"Scaling", "ScalingStoppedCluster"}, []string{stateRunning, stateStopped}, on(scale)}
	Upgrade = Operation{"upgrade", []string{stateRunning}, []string{"Upgrading"}, []string{stateRunning}, on(upgrade)}
	Start   = Operation{"start", nil, []string{"Starting"}, []string{stateRunning}, on(power)}
	Stop    = Operation{"stop", nil, []string{"Stopping"}, []string{stateStopped}, on(power)}
	Delete  = Operation{"delete", nil, []string{"Destroying"}, nil, on(remove)}
)

// Options are what an operation is asked for. Zone, version, offerings and network are names or ids. Zero values stay as they are, or
// are left to the defaults.
type Options struct {
	Description, Zone, Version, Network, KeyPair string

	Offering, ControlOffering, WorkerOffering string // the first is for all nodes that have none of their own

	Size, ControlNodes, RootDiskGiB int

	ExternalLB     string // address of a highly available control plane in a shared network
	CSI            bool
	Autoscaling    string   // MIN-MAX workers, or off
	RemoveServices bool     // before a delete
	Ignore         []string // codes of findings of the preflight that do not stop the operation
	// Install installs csccm into a new cluster by its kubeconfig; nil installs nothing.
	Install func(ctx context.Context, kubeconfig string) error
}

// on is the preparation of an operation on a cluster that exists.
func on(prepare func(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error) func(context.Context, *task, string) error {
	return func(ctx context.Context, t *task, name string) error {
		k, err := t.Service.cluster(ctx, name)
		if err != nil {
			return err
		}
		t.found(k)
		return prepare(ctx, t, k)
	}
}

// power starts or stops the VMs of a cluster.
func power(_ context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	call := t.API.StartKubernetesCluster
	if t.to[0] == stateStopped {
		call = t.API.StopKubernetesCluster
	}
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		return changes{}.add("state", k.State, t.to[0], k.State == t.to[0])
	}
	t.submit = func(ctx context.Context) (cloudstack.Submitted, error) { return call(ctx, k.ID) }
	return nil
}

// upgrade brings a cluster to another version of Kubernetes, node after node.
func upgrade(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	versions, err := t.versions(ctx, k.ZoneID)
	if err != nil {
		return err
	}
	to, err := pick("version", "--version", t.Version, versions, namesOfVersion)
	if err != nil {
		return err
	}
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		return changes{}.add("version", k.Version, to.Name, k.VersionID == to.ID)
	}
	t.preflight = func(r *ckscheck.Reader) ([]ckscheck.Finding, error) {
		f, err := r.Upgrade(ctx, k)
		if err != nil {
			return nil, err
		}
		return ckscheck.Upgrade(f, to.ID), nil
	}
	t.submit = func(ctx context.Context) (cloudstack.Submitted, error) {
		return t.API.UpgradeKubernetesCluster(ctx, k.ID, to.ID)
	}
	return nil
}

// ScaleRequest is what CloudStack is asked for, without the offerings. It changes one kind of thing at a time.
func (o *Options) ScaleRequest() (r cloudapi.ScaleClusterRequest, err error) {
	kinds := 0
	for _, given := range []bool{o.Size != 0, o.Offering+o.ControlOffering+o.WorkerOffering != "", o.Autoscaling != ""} {
		if given {
			kinds++
		}
	}
	if kinds != 1 || o.Size < 0 {
		return r, report.Usage("CloudStack changes the number of workers, the offerings, or autoscaling, and one of them at a time",
			"give --size with a number from 1 on, or --offering (or --worker-offering, --control-offering), or --autoscaling")
	}
	if r.Size = o.Size; o.Autoscaling == "" {
		return r, nil
	}
	on := o.Autoscaling != "off"
	r.Autoscaling = &on
	low, high, _ := strings.Cut(o.Autoscaling, "-")
	r.MinSize, _ = strconv.Atoi(low)
	r.MaxSize, _ = strconv.Atoi(high)
	if on && (r.MinSize < 1 || r.MaxSize <= r.MinSize) {
		return r, report.Usage(fmt.Sprintf("--autoscaling %q is neither off nor a range of workers", o.Autoscaling), "give for example 2-5")
	}
	return r, nil
}

// scale changes the size, the offerings or the autoscaling of a cluster.
func scale(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	r, err := t.ScaleRequest()
	if err != nil {
		return err
	}
	if r.Size != 0 {
		t.from = []string{stateRunning}
	}
	o, err := t.offerings(ctx, k.ZoneID)
	if err != nil {
		return err
	}
	r.ID, r.OfferingID, r.ControlOfferingID, r.WorkerOfferingID = k.ID, o.all.ID, o.control.ID, o.worker.ID
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		c := o.changes(k).add("workers", strconv.Itoa(k.Size), strconv.Itoa(r.Size), r.Size == 0 || r.Size == k.Size)
		if r.Autoscaling != nil {
			from, to := autoscaling(k.Autoscaling, k.MinSize, k.MaxSize), autoscaling(*r.Autoscaling, r.MinSize, r.MaxSize)
			c = c.add("autoscaling", from, to, from == to)
		}
		return c
	}
	t.preflight = func(in *ckscheck.Reader) ([]ckscheck.Finding, error) {
		f, err := in.Scale(ctx, k, r)
		if err != nil {
			return nil, err
		}
		return ckscheck.Scale(f, r), nil
	}
	t.submit = func(ctx context.Context) (cloudstack.Submitted, error) { return t.API.ScaleKubernetesCluster(ctx, r) }
	return nil
}

// changes are what differs from what was asked for.
type changes []Change

func (c changes) add(what, from, to string, same bool) changes {
	if same {
		return c
	}
	return append(c, Change{what, from, to})
}

// offerings are those that were named; the others are empty.
type offerings struct{ all, control, worker cloudapi.ServiceOffering }

// offerings resolves the names of offerings.
func (t *task) offerings(ctx context.Context, zoneID string) (o offerings, err error) {
	if t.Offering+t.ControlOffering+t.WorkerOffering == "" {
		return o, nil
	}
	known, err := t.API.ListServiceOfferings(ctx, zoneID)
	if err != nil {
		return o, explain("list the service offerings", err)
	}
	for _, f := range []struct {
		flag, want string
		to         *cloudapi.ServiceOffering
	}{{"--offering", t.Offering, &o.all}, {"--control-offering", t.ControlOffering, &o.control}, {"--worker-offering", t.WorkerOffering, &o.worker}} {
		if f.want == "" {
			continue
		}
		found, err := pick("offering", f.flag, f.want, known, func(o *cloudapi.ServiceOffering) []string { return []string{o.ID, o.Name} })
		if err != nil {
			return o, err
		}
		*f.to = *found
	}
	return o, nil
}

// changes are what of a cluster's offerings is not as it was asked for.
func (o *offerings) changes(k *cloudapi.KubernetesCluster) (c changes) {
	for _, x := range []struct{ what, id, name, to, toName string }{
		{
			"offering of control nodes", cmp.Or(k.ControlOfferingID, k.OfferingID), cmp.Or(k.ControlOfferingName, k.OfferingName),
			cmp.Or(o.control.ID, o.all.ID), cmp.Or(o.control.Name, o.all.Name),
		},
		{
			"offering of workers", cmp.Or(k.WorkerOfferingID, k.OfferingID), cmp.Or(k.WorkerOfferingName, k.OfferingName),
			cmp.Or(o.worker.ID, o.all.ID), cmp.Or(o.worker.Name, o.all.Name),
		},
	} {
		c = c.add(x.what, x.name, x.toName, x.to == "" || x.to == x.id)
	}
	return c
}

// remove deletes a cluster, its VMs, and the network if CloudStack created that for it. In any other network the rules and
// addresses of Services of type LoadBalancer would stay: RemoveServices deletes these Services first; otherwise the plan names them.
func remove(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		return []Change{{"state", k.State, "deleted, with its " + english.Plural(vms(k), "VM", "")}}
	}
	t.preflight = func(r *ckscheck.Reader) ([]ckscheck.Finding, error) {
		f, err := r.Delete(ctx, k)
		if err == nil && t.RemoveServices {
			err = t.removeServices(r, f.Services)
		}
		if err != nil {
			return nil, err
		}
		return ckscheck.Delete(f, t.RemoveServices), nil
	}
	t.submit = func(ctx context.Context) (cloudstack.Submitted, error) {
		return t.API.DeleteKubernetesCluster(ctx, k.ID)
	}
	return nil
}
