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
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Start starts a cluster that is stopped.
func (s *Service) Start(ctx context.Context, name string) error {
	return s.power(ctx, opStart, name, stateRunning, s.API.StartKubernetesCluster)
}

// Stop stops the VMs of a cluster.
func (s *Service) Stop(ctx context.Context, name string) error {
	return s.power(ctx, opStop, name, stateStopped, s.API.StopKubernetesCluster)
}

func (s *Service) power(ctx context.Context, o operation, name, to string, call func(context.Context, string) (cloudstack.Submitted, error)) error {
	return s.on(ctx, o, name, func(k *cloudapi.KubernetesCluster, t *task) error {
		t.plan.change("state", k.State, to)
		t.goal = inState(to)
		t.submit = func(ctx context.Context) (cloudstack.Submitted, error) { return call(ctx, k.ID) }
		return nil
	})
}

// Upgrade brings a cluster to another version of Kubernetes, node after node.
func (s *Service) Upgrade(ctx context.Context, name, version string) error {
	return s.on(ctx, opUpgrade, name, func(k *cloudapi.KubernetesCluster, t *task) error {
		versions, err := s.versions(ctx, k.ZoneID)
		if err != nil {
			return err
		}
		to, err := pick("version", "--version", version, versions, nameOfVersion)
		if err != nil {
			return err
		}
		if k.VersionID != to.ID {
			t.plan.change("version", k.Version, to.Name)
		}
		t.preflight = func(r *ckscheck.Reader) ([]ckscheck.Finding, error) {
			f, err := r.Upgrade(ctx, k)
			return ckscheck.Upgrade(f, to.ID), err
		}
		t.goal = func(k *cloudapi.KubernetesCluster) bool { return inState(stateRunning)(k) && k.VersionID == to.ID }
		t.submit = func(ctx context.Context) (cloudstack.Submitted, error) {
			return s.API.UpgradeKubernetesCluster(ctx, k.ID, to.ID)
		}
		return nil
	})
}

// Offerings are names or ids of the offerings of nodes; the first is for all that have none of their own.
type Offerings struct{ All, Control, Worker string }

// ScaleOptions are what csccm cks scale is asked for. Zero values stay as they are.
type ScaleOptions struct {
	Size        int
	Offerings   Offerings
	Autoscaling string // MIN-MAX workers, or off
}

// Validate checks what needs no connection. CloudStack changes one kind of thing at a time.
func (o *ScaleOptions) Validate() error {
	kinds := 0
	for _, given := range []bool{o.Size != 0, o.Offerings != Offerings{}, o.Autoscaling != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case o.Size < 0:
		return report.Usage(fmt.Sprintf("--size %d is no number of workers", o.Size), "give a number from 1 on")
	case kinds == 0:
		return report.Usage("nothing to scale is given", "give --size, --offering (or --worker-offering, --control-offering), or --autoscaling")
	case kinds > 1:
		return report.Usage("the size, the offerings and autoscaling cannot change at once: CloudStack changes one of them at a time", "run the command once for each")
	case o.Offerings.All != "" && o.Offerings.Control+o.Offerings.Worker != "":
		return report.Usage("--offering is for all nodes, and excludes --control-offering and --worker-offering", "give one or the other")
	}
	_, err := o.request()
	return err
}

// request is what CloudStack is asked for, without the offerings.
func (o *ScaleOptions) request() (r cloudapi.ScaleClusterRequest, err error) {
	r.Size = o.Size
	if o.Autoscaling == "" {
		return r, nil
	}
	on := o.Autoscaling != "off"
	if r.Autoscaling = &on; !on {
		return r, nil
	}
	low, high, _ := strings.Cut(o.Autoscaling, "-")
	r.MinSize, _ = strconv.Atoi(low)
	r.MaxSize, _ = strconv.Atoi(high)
	if r.MinSize < 1 || r.MaxSize <= r.MinSize {
		err = report.Usage(fmt.Sprintf("--autoscaling %q is neither off nor a range of workers", o.Autoscaling), "give for example 2-5")
	}
	return r, err
}

// Scale changes the size, the offerings or the autoscaling of a cluster.
func (s *Service) Scale(ctx context.Context, name string, o ScaleOptions) error {
	op := opScale
	if o.Size != 0 {
		op.from = []string{stateRunning}
	}
	return s.on(ctx, op, name, func(k *cloudapi.KubernetesCluster, t *task) error {
		r, err := o.request()
		if err != nil {
			return err
		}
		r.ID = k.ID
		names := map[string]string{}
		if o.Offerings != (Offerings{}) {
			all, err := s.API.ListServiceOfferings(ctx, k.ZoneID)
			if err == nil {
				err = o.Offerings.pick(all, names, &r.OfferingID, &r.ControlOfferingID, &r.WorkerOfferingID)
			}
			if err != nil {
				return explain("list the service offerings", err)
			}
		}
		if r.Autoscaling != nil {
			t.plan.change("autoscaling", autoscaling(k.Autoscaling, k.MinSize, k.MaxSize), autoscaling(*r.Autoscaling, r.MinSize, r.MaxSize))
		}
		if r.Size != 0 {
			t.plan.change("workers", strconv.Itoa(k.Size), strconv.Itoa(r.Size))
		}
		for _, c := range offeringsOf(k, r) {
			if c.to != "" {
				t.plan.change(c.what, c.fromName, names[c.to])
			}
		}
		t.goal = scaled(r)
		t.preflight = func(in *ckscheck.Reader) ([]ckscheck.Finding, error) {
			f, err := in.Scale(ctx, k, r)
			return ckscheck.Scale(f, r), err
		}
		t.submit = func(ctx context.Context) (cloudstack.Submitted, error) { return s.API.ScaleKubernetesCluster(ctx, r) }
		return nil
	})
}

// pick resolves the offerings that are named to ids, and notes their names.
func (o *Offerings) pick(known []cloudapi.ServiceOffering, names map[string]string, all, control, worker *string) error {
	for _, f := range []struct {
		flag, want string
		to         *string
	}{{"--offering", o.All, all}, {"--control-offering", o.Control, control}, {"--worker-offering", o.Worker, worker}} {
		if f.want == "" {
			continue
		}
		found, err := pick("offering", f.flag, f.want, known, nameOfOffering)
		if err != nil {
			return err
		}
		*f.to, names[found.ID] = found.ID, found.Name
	}
	return nil
}

type offeringChange struct{ what, from, fromName, to string }

// offeringsOf are the offerings of a cluster, and what a request makes of them.
func offeringsOf(k *cloudapi.KubernetesCluster, r cloudapi.ScaleClusterRequest) []offeringChange {
	return []offeringChange{
		{"offering of control nodes", cmp.Or(k.ControlOfferingID, k.OfferingID), cmp.Or(k.ControlOfferingName, k.OfferingName), cmp.Or(r.ControlOfferingID, r.OfferingID)},
		{"offering of workers", cmp.Or(k.WorkerOfferingID, k.OfferingID), cmp.Or(k.WorkerOfferingName, k.OfferingName), cmp.Or(r.WorkerOfferingID, r.OfferingID)},
	}
}

// scaled is the goal of a request.
func scaled(r cloudapi.ScaleClusterRequest) goal {
	return func(k *cloudapi.KubernetesCluster) bool {
		if k == nil || k.State != stateRunning && k.State != stateStopped {
			return false
		}
		for _, o := range offeringsOf(k, r) {
			if o.to != "" && o.from != o.to {
				return false
			}
		}
		if r.Autoscaling != nil {
			on := *r.Autoscaling
			return k.Autoscaling == on && (!on || k.MinSize == r.MinSize && k.MaxSize == r.MaxSize)
		}
		return r.Size == 0 || k.Size == r.Size
	}
}
