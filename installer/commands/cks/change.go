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
func (s *Service) Upgrade(ctx context.Context, name, version string, ignore []string) error {
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
		t.ignore = ignore
		t.preflight = func() ([]ckscheck.Finding, error) {
			f, err := s.reader(ctx, k).Upgrade(ctx, k)
			return found(err, func() []ckscheck.Finding { return ckscheck.Upgrade(f, to.ID) })
		}
		t.goal = func(k *cloudapi.KubernetesCluster) bool {
			return k != nil && k.State == stateRunning && k.VersionID == to.ID
		}
		t.submit = func(ctx context.Context) (cloudstack.Submitted, error) {
			return s.API.UpgradeKubernetesCluster(ctx, k.ID, to.ID)
		}
		return nil
	})
}

// found decides by facts that were read.
func found(err error, decide func() []ckscheck.Finding) ([]ckscheck.Finding, error) {
	if err != nil {
		return nil, err
	}
	return decide(), nil
}

// Offerings are names or ids of the offerings of nodes; the first is for all that have none of their own.
type Offerings struct{ All, Control, Worker string }

// ScaleOptions are what csccm cks scale is asked for. Zero values stay as they are.
type ScaleOptions struct {
	Size        int
	Offerings   Offerings
	Autoscaling *Autoscaling
	Ignore      []string
}

// Autoscaling is a request to switch autoscaling on, with this range of workers, or off with a nil Range.
type Autoscaling struct{ Range *Range }

// ParseAutoscaling reads MIN-MAX or off.
func ParseAutoscaling(s string) (*Autoscaling, error) {
	if s == "off" {
		return &Autoscaling{}, nil
	}
	low, high, _ := strings.Cut(s, "-")
	lowest, err1 := strconv.Atoi(low)
	highest, err2 := strconv.Atoi(high)
	if err1 != nil || err2 != nil || lowest < 1 || highest <= lowest {
		return nil, report.Usage(fmt.Sprintf("--autoscaling %q is neither off nor a range of workers", s), "give for example 2-5")
	}
	return &Autoscaling{&Range{lowest, highest}}, nil
}

// Validate checks what needs no connection. CloudStack changes one kind of thing at a time.
func (o *ScaleOptions) Validate() error {
	kinds := 0
	for _, given := range []bool{o.Size != 0, o.Offerings != Offerings{}, o.Autoscaling != nil} {
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
	return nil
}

// Scale changes the size, the offerings or the autoscaling of a cluster.
func (s *Service) Scale(ctx context.Context, name string, o ScaleOptions) error {
	op := opScale
	if o.Size != 0 {
		op.from = []string{stateRunning}
	}
	return s.on(ctx, op, name, func(k *cloudapi.KubernetesCluster, t *task) error {
		r := cloudapi.ScaleClusterRequest{ID: k.ID, Size: o.Size}
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
		if a := o.Autoscaling; a != nil {
			on := a.Range != nil
			if r.Autoscaling = &on; on {
				r.MinSize, r.MaxSize = a.Range.Min, a.Range.Max
			}
			t.plan.change("autoscaling", rangeOf(k).String(), a.Range.String())
		}
		if r.Size != 0 {
			t.plan.change("workers", strconv.Itoa(k.Size), strconv.Itoa(r.Size))
		}
		for _, c := range offeringsOf(k, r) {
			if c.to != "" {
				t.plan.change(c.what, c.fromName, cmp.Or(names[c.to], c.to))
			}
		}
		t.ignore, t.goal = o.Ignore, scaled(r)
		t.preflight = func() ([]ckscheck.Finding, error) {
			f, err := s.reader(ctx, k).Scale(ctx, k, r)
			return found(err, func() []ckscheck.Finding { return ckscheck.Scale(f, r) })
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
