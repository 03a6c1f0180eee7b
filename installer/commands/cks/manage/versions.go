// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// VersionPlan is what a command is about to do with a version. The run completes it, and it is the result then.
type VersionPlan struct {
	SchemaVersion int    `json:"schemaVersion"`
	Operation     string `json:"operation"` // add, enable, disable, delete
	Name          string `json:"name"`
	Action        Action `json:"action"`
	DryRun        bool   `json:"dryRun"`
	Done          bool   `json:"done"`
	// Version is how it is afterwards; nil before it is added, and after it is deleted.
	Version *Version `json:"version,omitempty"`
	Changes []Change `json:"changes"`
}

func (p *VersionPlan) what() string { return p.Operation + " Kubernetes version " + p.Name }

func (p *VersionPlan) write(w io.Writer) error {
	if p.Action == ActionNone {
		_, err := fmt.Fprintf(w, "Kubernetes version %s: nothing to do, it is so already\n", p.Name)
		return err
	}
	if _, err := fmt.Fprintf(w, "To do: %s\n", p.what()); err != nil {
		return err
	}
	for _, c := range p.Changes {
		if _, err := fmt.Fprintf(w, "  %-15s %s\n", c.What, c.To); err != nil {
			return err
		}
	}
	return nil
}

// runVersion shows the plan, asks and carries the step out.
func (s *Service) runVersion(ctx context.Context, p *VersionPlan, do func(ctx context.Context, note engine.Note) error) error {
	p.SchemaVersion, p.DryRun = schemaVersion, s.DryRun
	if p.Changes == nil {
		p.Changes = []Change{}
	}
	var steps []engine.Step
	if p.Action != ActionNone {
		steps = []engine.Step{{Name: p.what(), ReadOnly: p.Action == ActionFollow, Do: do}}
	}
	e := *s.Env
	e.Yes = e.Yes || p.Action == ActionFollow
	return e.Run(ctx, engine.Operation{
		Name: "cks-versions-" + p.Operation, What: p.what(), Back: "csccm cks versions shows the state of the ISO",
		Plan: p, Show: p.write, Steps: steps,
		Done: func(w io.Writer) error {
			if p.Action == ActionNone {
				return nil
			}
			state := "deleted"
			if p.Version != nil {
				state = p.Version.State + ", ISO " + dash(p.Version.ISOState)
			}
			_, err := fmt.Fprintf(w, "Kubernetes version %s: %s\n", p.Name, state)
			return err
		},
	})
}

// AddOptions are what csccm cks versions add is asked for.
type AddOptions struct {
	cloudstack.AddKubernetesVersionRequest // without ZoneID
	Zone                                   string
	NoWait                                 bool
}

// Validate checks what needs no connection.
func (o *AddOptions) Validate() error {
	switch {
	case o.URL == "":
		return report.Usage("the URL of the ISO is not given", "add --url URL; csccm cks iso makes an ISO, and download.cloudstack.org/cks has the project's")
	case compareVersions(o.Semantic, "0") < 0:
		return report.Usage(fmt.Sprintf("%q is no version of Kubernetes", o.Semantic), "give for example 1.33.1")
	case o.MinCPUs < leastCPUs || o.MinMemoryMiB < leastMemoryMiB:
		return report.Usage(fmt.Sprintf("%d CPUs and %d MiB are less than CloudStack allows for a node", o.MinCPUs, o.MinMemoryMiB),
			fmt.Sprintf("give at least --min-cpus %d and --min-memory %d", leastCPUs, leastMemoryMiB))
	}
	return nil
}

// What CloudStack wants of a node at least.
const (
	leastCPUs      = 2
	leastMemoryMiB = 2048
)

// AddVersion registers a version, and waits until its ISO can be used. One that is registered already is waited for.
func (s *Service) AddVersion(ctx context.Context, o AddOptions) error {
	var err error
	if o.ZoneID, err = s.zoneID(ctx, o.Zone); err != nil {
		return err
	}
	versions, err := s.versions(ctx, o.ZoneID)
	if err != nil {
		return err
	}
	p := &VersionPlan{Operation: "add", Name: o.Semantic, Action: ActionChange}
	id := ""
	for i := range versions {
		v := &versions[i]
		if v.Semantic != o.Semantic || v.ZoneID != o.ZoneID || o.Arch != "" && v.Arch != "" && v.Arch != o.Arch || o.Name != "" && v.Name != o.Name {
			continue
		}
		view := viewVersion(v)
		if id, p.Version, p.Action = v.ID, &view, ActionFollow; v.ISOState == isoReady || o.NoWait {
			p.Action, p.Done = ActionNone, true
		}
	}
	p.Changes = append(p.Changes, Change{What: "ISO", To: o.URL})
	if o.Zone != "" {
		p.Changes = append(p.Changes, Change{What: "zone", To: o.Zone})
	}
	p.Changes = append(p.Changes, Change{What: "least of a node", To: strconv.Itoa(o.MinCPUs) + " CPUs, " + strconv.Itoa(o.MinMemoryMiB) + " MiB"})
	return s.runVersion(ctx, p, func(ctx context.Context, note engine.Note) error {
		if id == "" {
			v, err := s.API.AddKubernetesVersion(ctx, o.AddKubernetesVersionRequest)
			if err != nil {
				return asAdmin(p.what(), err)
			}
			view := viewVersion(v)
			id, p.Version = v.ID, &view
			note("version %s (%s)", v.Name, v.ID)
		}
		if p.Done = o.NoWait; o.NoWait {
			return nil
		}
		return s.awaitISO(ctx, id, o.URL, p)
	})
}

// States of a version's ISO (not recorded besides Ready).
const (
	isoReady  = "Ready"
	isoFailed = "Failed"
)

// awaitISO waits until a version's ISO can be used. CloudStack downloads it in the background.
func (s *Service) awaitISO(ctx context.Context, id, url string, p *VersionPlan) error {
	said := ""
	_, err := engine.Poll(ctx, s.Clock, pollInterval, math.MaxInt64, func() (bool, error) {
		all, err := s.versions(ctx, "")
		if err != nil {
			return false, err
		}
		v, err := pick("version", "", id, all, nameOfVersion)
		if err != nil {
			return false, err
		}
		view := viewVersion(v)
		if p.Version = &view; view.ISOState != said {
			said = view.ISOState
			s.Progress.Step("ISO of version %s: %s", v.Name, dash(said))
		}
		if said == isoFailed {
			return false, &report.Error{
				What: fmt.Sprintf("CloudStack could not download the ISO of version %s from %s", v.Name, url),
				Fix:  "make sure that its secondary storage VM reaches the URL; csccm cks versions delete " + v.ID + ", then add it again",
			}
		}
		return said == isoReady, nil
	})
	if err == nil {
		p.Done = true
		s.Progress.Done("")
	}
	return err
}

// version returns the version that a person names.
func (s *Service) version(ctx context.Context, want string) (*cloudstack.KubernetesVersion, error) {
	all, err := s.versions(ctx, "")
	if err != nil {
		return nil, err
	}
	return pick("version", "", want, all, nameOfVersion)
}

// SetVersion enables or disables a version. Clusters that have a disabled one go on.
func (s *Service) SetVersion(ctx context.Context, name string, enable bool) error {
	v, err := s.version(ctx, name)
	if err != nil {
		return err
	}
	view := viewVersion(v)
	p := &VersionPlan{Operation: "enable", Name: v.Name, Action: ActionChange, Version: &view}
	state := cloudstack.VersionEnabled
	if !enable {
		p.Operation, state = "disable", cloudstack.VersionDisabled
	}
	if v.State == state {
		p.Action, p.Done = ActionNone, true
	}
	return s.runVersion(ctx, p, func(ctx context.Context, note engine.Note) error {
		changed, err := s.API.UpdateKubernetesVersion(ctx, v.ID, state)
		if err != nil {
			return asAdmin(p.what(), err)
		}
		note("version %s (%s) is %s", v.Name, v.ID, changed.State)
		view := viewVersion(changed)
		p.Version, p.Done = &view, true
		return nil
	})
}

// DeleteVersion deletes a version and its ISO.
func (s *Service) DeleteVersion(ctx context.Context, name string) error {
	v, err := s.version(ctx, name)
	if err != nil {
		return err
	}
	p := &VersionPlan{Operation: "delete", Name: v.Name, Action: ActionChange, Changes: []Change{{What: "ISO", To: dash(v.ISOName)}}}
	return s.runVersion(ctx, p, func(ctx context.Context, note engine.Note) error {
		s.Progress.Step("Deleting version %s", v.Name)
		sent, err := s.API.DeleteKubernetesVersion(ctx, v.ID)
		if err != nil {
			return asAdmin(p.what(), err)
		}
		note("version %s (%s), job %s", v.Name, v.ID, sent.JobID)
		if _, err := s.API.Jobs().Wait(ctx, "deleteKubernetesSupportedVersion", sent.JobID); err != nil {
			return explain(p.what(), err)
		}
		s.Progress.Done("")
		p.Done = true
		return nil
	})
}

// VersionNames are the semantic versions, for completion.
func VersionNames(ctx context.Context, api *cloudstack.Client, _ string) ([]string, error) {
	all, err := api.ListKubernetesVersions(ctx, "")
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Semantic
	}
	return out, err
}
