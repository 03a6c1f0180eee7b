// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// ScaleOptions are what csccm cks scale is asked for. Offerings are names or ids; zero values stay as they are.
type ScaleOptions struct {
	Size                                      int
	Offering, ControlOffering, WorkerOffering string
	Autoscaling                               *Autoscaling
	Ignore                                    []string
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

func (o *ScaleOptions) offerings() bool { return o.Offering+o.ControlOffering+o.WorkerOffering != "" }

// Validate checks what needs no connection.
func (o *ScaleOptions) Validate() error {
	kinds := 0
	for _, given := range []bool{o.Size != 0, o.offerings(), o.Autoscaling != nil} {
		if given {
			kinds++
		}
	}
	switch {
	case o.Size < 0:
		return report.Usage(fmt.Sprintf("--size %d is less than one worker", o.Size), "csccm cks stop stops a cluster, and keeps its nodes")
	case kinds == 0:
		return report.Usage("nothing to scale is given", "give --size, --offering (or --worker-offering, --control-offering), or --autoscaling")
	case kinds > 1:
		return report.Usage("the size, the offerings and autoscaling cannot change at once: CloudStack changes one of them at a time", "run the command once for each")
	case o.Offering != "" && o.ControlOffering+o.WorkerOffering != "":
		return report.Usage("--offering is for all nodes, and excludes --control-offering and --worker-offering", "give one or the other")
	}
	return nil
}

// planScale decides about a request whose offerings are ids. names are those of the offerings.
func planScale(k *cloudstack.KubernetesCluster, r cloudstack.ScaleClusterRequest, names map[string]string) (*Plan, error) {
	if err := managed(k, "scale"); err != nil {
		return nil, err
	}
	p := newPlan("scale", k)
	if r.Size != 0 {
		p.change("workers", strconv.Itoa(k.Size), strconv.Itoa(r.Size))
	}
	if r.Autoscaling != nil {
		to := &Range{r.MinSize, r.MaxSize}
		if !*r.Autoscaling {
			to = nil
		}
		p.change("autoscaling", viewCluster(k).Autoscaling.String(), to.String())
	}
	for _, o := range offeringsOf(k, r) {
		if o.to != "" {
			p.change(o.what, o.fromName, cmp.Or(names[o.to], o.to))
		}
	}
	if err := p.running(k, "Scaling", "ScalingStoppedCluster"); err != nil || p.Action == ActionFollow {
		return p, err
	}
	if len(p.Changes) == 0 {
		p.none("it is so already")
	}
	return p, nil
}

type offeringChange struct{ what, from, fromName, to string }

// offeringsOf are the offerings of a cluster, and what a request makes of them.
func offeringsOf(k *cloudstack.KubernetesCluster, r cloudstack.ScaleClusterRequest) []offeringChange {
	return []offeringChange{
		{"offering of control nodes", cmp.Or(k.ControlOfferingID, k.OfferingID), cmp.Or(k.ControlOfferingName, k.OfferingName), cmp.Or(r.ControlOfferingID, r.OfferingID)},
		{"offering of workers", cmp.Or(k.WorkerOfferingID, k.OfferingID), cmp.Or(k.WorkerOfferingName, k.OfferingName), cmp.Or(r.WorkerOfferingID, r.OfferingID)},
	}
}

// scaled is the goal of a request.
func scaled(r cloudstack.ScaleClusterRequest) goal {
	return func(k *cloudstack.KubernetesCluster) bool {
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

// Scale changes the size, the offerings or the autoscaling of a cluster.
func (s *Service) Scale(ctx context.Context, name string, o ScaleOptions) error {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	if err := managed(k, "scale"); err != nil {
		return err
	}
	r := cloudstack.ScaleClusterRequest{ID: k.ID, Size: o.Size}
	names := map[string]string{}
	if o.offerings() {
		offerings, err := s.offerings(ctx, k.ZoneID)
		if err != nil {
			return err
		}
		for _, f := range []struct {
			flag, want string
			to         *string
		}{{"--offering", o.Offering, &r.OfferingID}, {"--control-offering", o.ControlOffering, &r.ControlOfferingID}, {"--worker-offering", o.WorkerOffering, &r.WorkerOfferingID}} {
			if err := pickOffering(offerings, f.flag, f.want, f.to, names); err != nil {
				return err
			}
		}
	}
	if a := o.Autoscaling; a != nil {
		on := a.Range != nil
		if r.Autoscaling = &on; on {
			r.MinSize, r.MaxSize = a.Range.Min, a.Range.Max
		}
	}
	p, err := planScale(k, r, names)
	if err != nil {
		return err
	}
	if p.Action == ActionChange {
		f, err := s.reader(ctx, k).Scale(ctx, k, r)
		if err != nil {
			return explain("look at what scaling needs", err)
		}
		p.Findings = append(p.Findings, preflight.Scale(f, r)...)
	}
	return s.run(ctx, &task{
		plan: p, ignore: o.Ignore, goal: scaled(r),
		submit: func(ctx context.Context) (cloudstack.Submitted, error) { return s.API.ScaleKubernetesCluster(ctx, r) },
	})
}

func (s *Service) offerings(ctx context.Context, zoneID string) ([]cloudstack.ServiceOffering, error) {
	all, err := s.API.ListServiceOfferings(ctx, zoneID)
	return all, explain("list the service offerings", err)
}

// pickOffering resolves an offering that a flag names, if it does.
func pickOffering(offerings []cloudstack.ServiceOffering, flag, want string, to *string, names map[string]string) error {
	if want == "" {
		return nil
	}
	o, err := pick("offering", flag, want, offerings, nameOfOffering)
	if err == nil {
		*to, names[o.ID] = o.ID, o.Name
	}
	return err
}
