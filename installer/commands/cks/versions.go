// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
)

// VersionList is the result of csccm cks versions.
type VersionList struct {
	SchemaVersion int                          `json:"schemaVersion"`
	Versions      []cloudapi.KubernetesVersion `json:"versions"`
}

// Versions lists the versions of a zone, by name or id, or all for "".
func (s *Service) Versions(ctx context.Context, zone string) (*VersionList, error) {
	zoneID, err := s.zoneID(ctx, zone)
	if err != nil {
		return nil, err
	}
	all, err := s.versions(ctx, zoneID)
	return &VersionList{schemaVersion, append([]cloudapi.KubernetesVersion{}, all...)}, err
}

// Write prints the list for a person.
func (l *VersionList) Write(w io.Writer, style report.Style) error {
	t := report.Table{Header: []string{"VERSION", "NAME", "STATE", "ISO", "ZONE", "ARCH", "MIN CPUS", "MIN MEMORY"}}
	for _, v := range l.Versions {
		t.Add(v.Semantic, v.Name, v.State, cmp.Or(v.ISOState, "gone"), cmp.Or(v.ZoneName, "all"), dash(v.Arch), strconv.Itoa(v.MinCPUs), strconv.Itoa(v.MinMemoryMiB)+" MiB")
	}
	return t.Write(w, style)
}

// zoneID returns the id of a zone by its name or id; "" stays.
func (s *Service) zoneID(ctx context.Context, zone string) (string, error) {
	if zone == "" {
		return "", nil
	}
	z, err := s.zoneOf(ctx, zone)
	if err != nil {
		return "", err
	}
	return z.ID, nil
}

func planVersion(operation, name string) *task {
	return &task{plan: &Plan{
		SchemaVersion: schemaVersion, Operation: operation, Kind: "Kubernetes version", Name: name, Action: ActionChange,
		Changes: []Change{}, Findings: []ckscheck.Finding{},
	}}
}

// runVersion shows the plan, asks and carries the step out.
func (s *Service) runVersion(ctx context.Context, t *task, do func(ctx context.Context, note engine.Note) error) error {
	p := t.plan
	var steps []engine.Step
	if p.Action != ActionNone {
		steps = []engine.Step{{Name: p.what(), ReadOnly: p.Action == ActionFollow, Do: func(ctx context.Context, note engine.Note) error {
			err := explain(p.what(), do(ctx, note))
			if p.State = ""; p.Version != nil {
				p.State = p.Version.State + ", ISO " + dash(p.Version.ISOState)
			}
			return err
		}}}
	}
	return s.show(ctx, "cks-versions-", t, steps, "csccm cks versions shows the state of the ISO")
}

// AddOptions are what csccm cks versions add is asked for.
type AddOptions struct {
	cloudapi.AddKubernetesVersionRequest // without ZoneID
	Zone                                 string
	NoWait                               bool
}

// Validate checks what needs no connection.
func (o *AddOptions) Validate() error {
	switch {
	case o.URL == "":
		return report.Usage("the URL of the ISO is not given", "add --url URL; csccm cks iso makes an ISO, and download.cloudstack.org/cks has the project's")
	case compareVersions(o.Semantic, "0") < 0:
		return report.Usage(fmt.Sprintf("%q is no version of Kubernetes", o.Semantic), "give for example 1.33.1")
	}
	return nil
}

// AddVersion registers a version, and waits until its ISO can be used. One that is registered already is waited for.
func (s *Service) AddVersion(ctx context.Context, o AddOptions) (err error) {
	if o.ZoneID, err = s.zoneID(ctx, o.Zone); err != nil {
		return err
	}
	versions, err := s.versions(ctx, o.ZoneID)
	if err != nil {
		return err
	}
	t, id := planVersion("add", o.Semantic), ""
	p := t.plan
	p.change("ISO", "", o.URL)
	p.change("zone", "", o.Zone)
	p.change("least of a node", "", fmt.Sprintf("%d CPUs, %d MiB", o.MinCPUs, o.MinMemoryMiB))
	for i := range versions {
		v := &versions[i]
		if v.Semantic != o.Semantic || v.ZoneID != o.ZoneID || o.Arch != "" && v.Arch != "" && v.Arch != o.Arch || o.Name != "" && v.Name != o.Name {
			continue
		}
		id, p.Version, p.Action, p.Why = v.ID, v, ActionFollow, "it is registered already"
		if v.ISOState == isoReady || o.NoWait {
			p.nothing("it is registered already")
		}
	}
	return s.runVersion(ctx, t, func(ctx context.Context, note engine.Note) error {
		if id == "" {
			v, err := s.API.AddKubernetesVersion(ctx, o.AddKubernetesVersionRequest)
			if err != nil {
				return err
			}
			id, p.Version = v.ID, v
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
func (s *Service) awaitISO(ctx context.Context, id, url string, p *Plan) error {
	said := ""
	_, err := engine.Poll(ctx, s.Clock, pollInterval, math.MaxInt64, func() (bool, error) {
		v, err := s.version(ctx, id)
		if err != nil {
			return false, err
		}
		if p.Version = v; v.ISOState != said {
			said = v.ISOState
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
	if p.Done = err == nil; p.Done {
		s.Progress.Done("")
	}
	return err
}

// version returns the version that a person names.
func (s *Service) version(ctx context.Context, want string) (*cloudapi.KubernetesVersion, error) {
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
	operation, state := "enable", cloudapi.VersionEnabled
	if !enable {
		operation, state = "disable", cloudapi.VersionDisabled
	}
	t := planVersion(operation, v.Name)
	p := t.plan
	p.Version = v
	if p.change("state", v.State, state); len(p.Changes) == 0 {
		p.nothing("already in that state")
	}
	return s.runVersion(ctx, t, func(ctx context.Context, note engine.Note) error {
		changed, err := s.API.UpdateKubernetesVersion(ctx, v.ID, state)
		if err != nil {
			return err
		}
		note("version %s (%s) is %s", v.Name, v.ID, changed.State)
		p.Version, p.Done = changed, true
		return nil
	})
}

// DeleteVersion deletes a version and its ISO.
func (s *Service) DeleteVersion(ctx context.Context, name string) error {
	v, err := s.version(ctx, name)
	if err != nil {
		return err
	}
	t := planVersion("delete", v.Name)
	t.plan.change("ISO", dash(v.ISOName), "deleted")
	return s.runVersion(ctx, t, func(ctx context.Context, note engine.Note) error {
		s.Progress.Step("Deleting version %s", v.Name)
		sent, err := s.API.DeleteKubernetesVersion(ctx, v.ID)
		if err != nil {
			return err
		}
		note("version %s (%s), job %s", v.Name, v.ID, sent.JobID)
		if _, err := s.API.Jobs().Wait(ctx, "deleteKubernetesSupportedVersion", sent.JobID); err != nil {
			return err
		}
		s.Progress.Done("")
		t.plan.Done = true
		return nil
	})
}
