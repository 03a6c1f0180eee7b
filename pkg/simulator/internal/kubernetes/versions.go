// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Minimum size of a node: CPUs, and memory in MB.
const (
	minNodeCPU = 2
	minNodeMem = 2048
)

// kubernetesVersionView is the API object kubernetessupportedversion.
type kubernetesVersionView struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Semantic       string          `json:"semanticversion"`
	ISOID          string          `json:"isoid,omitempty"`
	ISOName        string          `json:"isoname,omitempty"`
	ISOState       string          `json:"isostate,omitempty"`
	Arch           string          `json:"arch,omitempty"`
	ZoneID         string          `json:"zoneid,omitempty"`
	ZoneName       string          `json:"zonename,omitempty"`
	HA             bool            `json:"supportsha"`
	Autoscaling    bool            `json:"supportsautoscaling"`
	State          string          `json:"state"`
	MinCPU         int             `json:"mincpunumber"`
	MinMemory      int             `json:"minmemory"`
	Created        *wire.Timestamp `json:"created"`
	DirectDownload bool            `json:"directdownload"`
}

func viewKubernetesVersion(c *wire.Call, v *store.KubernetesVersion) kubernetesVersionView {
	out := kubernetesVersionView{
		ID: v.UUID, Name: v.Name, Semantic: v.Semantic, HA: atLeast(v, minKubernetesHA),
		Autoscaling: atLeast(v, minKubernetesAutoscaling), State: v.State(), MinCPU: v.MinCPU, MinMemory: v.MinMemMB,
		Created: wire.Stamp(v.Created),
	}
	if out.ISOState = v.ISO(c.Now); out.ISOState != "" {
		out.ISOID, out.ISOName, out.Arch, out.DirectDownload = v.IsoID, v.IsoName, v.Arch, v.DirectDownload
	}
	if v.Zone != nil {
		out.ZoneID, out.ZoneName = v.Zone.UUID, v.Zone.Name
	}
	return out
}

func listKubernetesSupportedVersions(c *wire.Call) (any, error) {
	least := c.Str("minimumsemanticversion")
	if least != "" && !dottedNumber.MatchString(least) {
		return nil, wire.ParamError("Invalid version format")
	}

	if c.Given("minimumkubernetesversionid") {
		if least != "" {
			return nil, c.Internal(wire.CSRuntime,
				"Both parameters minimumsemanticversion and minimumkubernetesversionid can not be passed together")
		}
		v := wire.Arg[*store.KubernetesVersion](c, "minimumkubernetesversionid")
		if v == nil || v.Removed {
			return nil, wire.Invalid("Invalid minimumkubernetesversionid passed")
		}
		least = v.Semantic
	}

	if a := c.Str("arch"); a != "" && !slices.Contains(cpuArchs, a) {
		return nil, c.Internal(wire.CSRuntime, "Unsupported arch type: %s", a)
	}

	view := func(v *store.KubernetesVersion) kubernetesVersionView { return viewKubernetesVersion(c, v) }
	return wire.List(c, "kubernetessupportedversion", c.St.KubernetesVersions.Rows,
		func(v *store.KubernetesVersion) bool {
			return (!c.Given("zoneid") || v.Zone == nil || wire.Matches(c, "zoneid", v.Zone)) &&
				c.Like("keyword", v.Name) &&
				(c.Str("arch") == "" || c.Str("arch") == v.Arch) &&
				(least == "" || atLeast(v, least))
		}, view)
}

// cpuArchs are the valid architectures of an ISO.
var cpuArchs = []string{"x86_64", "aarch64"}

func addKubernetesSupportedVersion(c *wire.Call) (any, error) {
	if !dottedNumber.MatchString(c.Str("semanticversion")) {
		return nil, wire.ParamError("Invalid version format. Semantic version needed")
	}
	v, err := newKubernetesVersion(c)
	if err != nil {
		return nil, cksError(err)
	}
	c.St.KubernetesVersions.Add(v)
	return wire.Object("kubernetessupportedversion", viewKubernetesVersion(c, v)), nil
}

func newKubernetesVersion(c *wire.Call) (*store.KubernetesVersion, error) {
	v := &store.KubernetesVersion{
		Entity:         store.Entity{Created: c.Now},
		Name:           c.Str("name"),
		Semantic:       c.Str("semanticversion"),
		Zone:           wire.Arg[*store.Zone](c, "zoneid"),
		Arch:           "x86_64",
		DirectDownload: c.Boolean("directdownload"),
		MinCPU:         c.Integer("mincpunumber"),
		MinMemMB:       c.Integer("minmemory"),
		IsoID:          uuid.NewString(),
	}

	if v.MinCPU < minNodeCPU {
		return nil, wire.Invalid("Invalid value for mincpunumber parameter. Minimum %d vCPUs required.", minNodeCPU)
	}

	if v.MinMemMB < minNodeMem {
		return nil, wire.Invalid("Invalid value for minmemory parameter. Minimum %dMB memory required", minNodeMem)
	}

	switch n, err := compareVersions(v.Semantic, minKubernetes); {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, wire.Invalid("New supported Kubernetes version cannot be added as %s is minimum version "+
			"supported by Kubernetes Service", minKubernetes)
	}

	if c.Given("zoneid") && v.Zone == nil {
		return nil, wire.Invalid("Invalid zone specified")
	}

	if c.Str("url") == "" {
		shown := c.Str("url")
		if !c.Has("url") {
			shown = "null"
		}
		return nil, wire.Invalid("Invalid URL for ISO specified, %s", shown)
	}

	if a := c.Str("arch"); a != "" {
		if !slices.Contains(cpuArchs, a) {
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Unsupported arch type: %s", a)
		}
		v.Arch = a
	}

	if v.Name == "" {
		v.Name = "v" + v.Semantic
		if v.Zone != nil {
			v.Name += "-" + v.Zone.Name
		}
	}

	v.IsoName = v.Name + "-Kubernetes-Binaries-ISO"
	if download := c.Server.Profile().Jobs["registerIso"]; download > 0 {
		v.Downloaded = c.Now.Add(download)
	}

	return v, nil
}

func updateKubernetesSupportedVersion(c *wire.Call) (any, error) {
	v := wire.Arg[*store.KubernetesVersion](c, "id")
	if v == nil || v.Removed {
		return nil, cksError(wire.Invalid("Invalid Kubernetes version id specified"))
	}
	switch c.Str("state") {
	case "Enabled":
		v.Disabled = false
	case "Disabled":
		v.Disabled = true
	default:
		return nil, cksError(wire.Invalid("Invalid value for state parameter"))
	}
	return wire.Object("kubernetessupportedversion", viewKubernetesVersion(c, v)), nil
}

func deleteKubernetesSupportedVersion(c *wire.Call) (*wire.JobSpec, error) {
	v := wire.Arg[*store.KubernetesVersion](c, "id")
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		if v == nil || v.Removed {
			return nil, cksError(wire.Invalid("Invalid Kubernetes version id specified"))
		}
		if _, used := c.St.KubernetesClusters.Find(func(k *store.KubernetesCluster) bool {
			return k.Version == v
		}); used {
			return nil, cksError(wire.Invalid("Unable to delete Kubernetes version ID: %s. Existing clusters "+
				"currently using the version.", v.UUID))
		}
		v.Removed = true
		return wire.Success{Success: true}, nil
	}}, nil
}

// cksError converts an error as the commands of CloudStack Kubernetes Service do: any error becomes an internal error
// with the same text, which normal users see, too. An IllegalArgumentException is returned unchanged.
func cksError(err error) error {
	if err == nil {
		return nil
	}
	e := wire.AsAPIError(err)
	if e.Status == wire.CodeParam && e.CS == wire.CSGeneric {
		return e
	}
	return wire.Errf(wire.CodeInternal, wire.CSGeneric, "%s", e.Text)
}

// The first Kubernetes versions with a feature.
const (
	minKubernetes            = "1.11.0"
	minKubernetesHA          = "1.16.0"
	minKubernetesAutoscaling = "1.15.0"
)

var dottedNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)

// compareVersions compares two versions of at least three numbers each. The error is CloudStack's
// IllegalArgumentException, which every command returns unchanged.
func compareVersions(a, b string) (int, error) {
	for _, v := range []string{a, b} {
		if !dottedNumber.MatchString(v) || strings.Count(v, ".") < 2 {
			return 0, wire.ParamError("Invalid version format, %s. Semantic version should be specified in "+
				"MAJOR.MINOR.PATCH format", v)
		}
	}
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		switch p, q := versionPart(x, i), versionPart(y, i); {
		case p < q:
			return -1, nil
		case p > q:
			return 1, nil
		}
	}
	return 0, nil
}

func versionPart(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil {
		return 0
	}
	return n
}

// atLeast reports whether a validated version is at least other.
func atLeast(v *store.KubernetesVersion, other string) bool {
	n, err := compareVersions(v.Semantic, other)
	return err == nil && n >= 0
}

// checkUpgrade allows the next minor version and newer patch versions.
func checkUpgrade(from, to string) error {
	diff, err := compareVersions(to, from)
	if err != nil {
		return err
	}
	var what string
	x, y := strings.Split(from, "."), strings.Split(to, ".")
	switch {
	case diff == 0:
		what = "can not be upgraded"
	case diff < 0:
		what = "can not be downgraded"
	case versionPart(x, 0) != versionPart(y, 0) || versionPart(y, 1)-versionPart(x, 1) > 1:
		what = "can be upgraded between next minor or patch version releases"
	default:
		return nil
	}
	return wire.Invalid("Kubernetes clusters %s, current version: %s, upgrade version: %s", what, from, to)
}
