// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// The minimums that CloudStack accepts for the nodes of a version.
const (
	minCPUs      = 2
	minMemoryMiB = 2048
)

// checksum matches the checksum of an ISO in the format of CloudStack; without the name of an algorithm it is MD5.
var checksum = regexp.MustCompile(`^(?:\{(MD5|SHA-1|SHA-224|SHA-256|SHA-384|SHA-512)\})?([0-9a-fA-F]+)$`)

// digits is the length of a checksum in hexadecimal digits, by algorithm.
var digits = map[string]int{"": 32, "MD5": 32, "SHA-1": 40, "SHA-224": 56, "SHA-256": 64, "SHA-384": 96, "SHA-512": 128}

// ValidateVersion checks the options of a new version as far as that needs no connection.
func (o *Options) ValidateVersion(number string) error {
	u, err := url.Parse(o.URL)
	sum := checksum.FindStringSubmatch(o.Checksum)
	_, wrong := semver.StrictNewVersion(number)
	switch {
	case wrong != nil:
		return report.Usage("give three numbers, such as 1.34.1", "%q is not a version of Kubernetes", number)

	case err != nil ||
		u.Host == "" ||
		!slices.Contains([]string{"http", "https"}, u.Scheme) ||
		!strings.HasSuffix(u.Path, ".iso"):
		return report.Usage(
			"give the address from which CloudStack's secondary storage VM can load it",
			"--url %q is not the http or https URL of an ISO", o.URL,
		)

	case o.Checksum != "" && (sum == nil || len(sum[2]) != digits[sum[1]]):
		return report.Usage(
			"give {SHA-256} and the output of sha256sum; csccm cks iso prints it",
			"--checksum %q is not a checksum", o.Checksum,
		)

	case o.MinCPUs != 0 && o.MinCPUs < minCPUs, o.MinMemoryMiB != 0 && o.MinMemoryMiB < minMemoryMiB:
		return report.Usage(
			"give --min-cpus and --min-memory at least these, or leave them out",
			"nodes of every version need 2 CPUs and 2048 MiB",
		)
	}

	return nil
}

// AddVersion registers a version, and waits until its ISO can be used. If the version is registered already, AddVersion
// only waits.
func (s *Service) AddVersion(ctx context.Context, number string, o *Options) error {
	if err := s.needs(ctx, o, "", ""); err != nil {
		return err
	}

	zone := &object{}
	if o.Zone != "" {
		var err error
		if zone, err = s.zone(ctx, o.Zone); err != nil {
			return err
		}
	}

	all, err := s.versions(ctx, zone.id)
	if err != nil {
		return err
	}

	p := s.plan("add", "version", number)
	f := cloudstack.Params{
		"semanticversion": number,
		"url":             o.URL,
		"mincpunumber":    strconv.Itoa(max(o.MinCPUs, minCPUs)),
		"minmemory":       strconv.Itoa(max(o.MinMemoryMiB, minMemoryMiB)),
	}.
		Set("name", o.VersionName).
		Set("zoneid", zone.id).
		Set("checksum", o.Checksum).
		Set("arch", o.Arch).
		Flag("directdownload", o.DirectDownload)
	p.Changes = changes{}.
		add("ISO", "", o.URL, false).
		add("checksum", "", o.Checksum, o.Checksum == "").
		add("zone", "", zone.name, zone.name == "").
		add("name", "", o.VersionName, o.VersionName == "")

	if o.Checksum == "" {
		p.Findings = append(p.Findings, ckscheck.Finding{
			Code:     "no-checksum",
			Severity: ckscheck.Warning,
			Object:   "ISO " + o.URL,
			What:     "without a checksum CloudStack accepts whatever the URL serves",
			Remedy:   "give --checksum",
		})
	}

	same := func(v cloudapi.KubernetesVersion) bool {
		return v.Semantic == number &&
			v.ZoneID == zone.id &&
			(o.VersionName == "" || v.Name == o.VersionName) &&
			(o.Arch == "" || v.Arch == o.Arch)
	}

	follow := engine.Step{
		Name:     "follow the ISO of version " + number,
		ReadOnly: true,
		Do:       func(ctx context.Context) error { return s.awaitISO(ctx, p, zone.id, same) },
	}

	if i := slices.IndexFunc(all, same); i >= 0 {
		p.ID, p.State, p.Changes = all[i].ID, all[i].ISOState, changes{}
		if p.Action = ActionFollow; p.State == isoReady {
			p.Action, p.Done = ActionNone, true
		}
	}

	return s.call(ctx, p, "addKubernetesSupportedVersion", f, follow)
}

const isoReady = "Ready"

// awaitISO waits until CloudStack has loaded the ISO of a version.
func (s *Service) awaitISO(
	ctx context.Context, p *Plan, zoneID string, same func(cloudapi.KubernetesVersion) bool,
) error {
	said := ""
	_, err := poll.Until(ctx, s.Clock, pollInterval, math.MaxInt64, func() (bool, error) {
		all, err := s.API.ListKubernetesVersions(ctx, zoneID)
		if err != nil {
			return false, explain("look at the ISO", err)
		}

		i := slices.IndexFunc(all, same)
		if i < 0 || all[i].ISOState == "" {
			return false, report.Errorf(
				"csccm cks versions shows what there is",
				"the ISO of version %s no longer exists", p.Name,
			)
		}

		p.ID, p.State = all[i].ID, all[i].ISOState
		if p.State != said {
			said = p.State
			s.Progress.Step("ISO of version %s: %s", p.Name, said)
		}

		if strings.Contains(strings.ToLower(said), "fail") {
			return false, report.Errorf(
				"the ISO's page in CloudStack's UI says why, often URL or checksum; "+
					"delete the version (csccm cks versions delete "+p.Name+") and add it again",
				"CloudStack could not load the ISO of version %s, whose state is %s", p.Name, said,
			)
		}

		return said == isoReady, nil
	})

	p.Done = err == nil
	return err
}

// namedVersion returns the version with that name, id or number.
func (s *Service) namedVersion(ctx context.Context, name string) (*cloudapi.KubernetesVersion, error) {
	all, err := s.versions(ctx, "")
	if err != nil {
		return nil, err
	}
	return pick("version", "", name, all, namesOfVersion)
}

// SetVersion enables or disables a version for new clusters and upgrades.
func (s *Service) SetVersion(ctx context.Context, name, verb string) error {
	state := map[string]string{"enable": "Enabled", "disable": "Disabled"}[verb]
	v, err := s.namedVersion(ctx, name)
	if err != nil {
		return err
	}

	p := s.plan(verb, "version", v.Name)
	p.ID, p.State = v.ID, v.State
	if v.State == state {
		p.Action, p.Done = ActionNone, true
	} else {
		p.Changes = changes{{"state", v.State, state}}
	}

	return s.call(ctx, p, "updateKubernetesSupportedVersion", cloudstack.Params{"id": v.ID, "state": state})
}

// DeleteVersion deletes a version with its ISO. The plan names the clusters of all accounts that use the version.
func (s *Service) DeleteVersion(ctx context.Context, name string) error {
	v, err := s.namedVersion(ctx, name)
	if err != nil {
		return err
	}

	clusters, err := s.API.ListAllKubernetesClusters(ctx)
	if err != nil {
		return explain("list the clusters of all accounts", err)
	}

	p := s.plan("delete", "version", v.Name)
	p.ID, p.State, p.Changes = v.ID, v.State, changes{{"ISO", dash(v.ISOName), "deleted"}}
	for _, k := range clusters {
		if k.VersionID == v.ID {
			p.Findings = append(p.Findings, ckscheck.Finding{
				Code:     "version-used",
				Severity: ckscheck.Error,
				Object:   "cluster " + k.Name + " of " + k.Owner(),
				What:     "it has the version",
				Remedy: "upgrade or delete the cluster first; csccm cks versions disable " + v.Name +
					" prevents new clusters with it",
			})
		}
	}

	return s.call(ctx, p, "deleteKubernetesSupportedVersion", cloudstack.Params{"id": v.ID})
}
