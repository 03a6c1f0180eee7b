// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

var cksVersionRefs = map[string]refKind{"id": refKubernetesVersion, "minimumkubernetesversionid": refKubernetesVersion}

// Minimum size of a node: CPUs, and memory in MB.
const (
	minNodeCPU = 2
	minNodeMem = 2048
)

// kubernetesVersionView is the API object kubernetessupportedversion.
type kubernetesVersionView struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	Semantic       string     `json:"semanticversion"`
	ISOID          string     `json:"isoid,omitempty"`
	ISOName        string     `json:"isoname,omitempty"`
	ISOState       string     `json:"isostate,omitempty"`
	Arch           string     `json:"arch,omitempty"`
	ZoneID         string     `json:"zoneid,omitempty"`
	ZoneName       string     `json:"zonename,omitempty"`
	HA             bool       `json:"supportsha"`
	Autoscaling    bool       `json:"supportsautoscaling"`
	State          string     `json:"state"`
	MinCPU         int        `json:"mincpunumber"`
	MinMemory      int        `json:"minmemory"`
	Created        *timestamp `json:"created"`
	DirectDownload bool       `json:"directdownload"`
}

func viewKubernetesVersion(v *kubernetesVersion) kubernetesVersionView {
	out := kubernetesVersionView{
		ID: v.uuid, Name: v.name, Semantic: v.semantic, ISOID: v.isoID, ISOName: v.isoName, ISOState: "Ready", Arch: v.arch, HA: v.atLeast(minKubernetesHA),
		Autoscaling: v.atLeast(minKubernetesAutoscaling), State: v.state(), MinCPU: v.minCPU, MinMemory: v.minMemMB, Created: stamp(v.created), DirectDownload: v.directDownload,
	}
	if v.zone != nil {
		out.ZoneID, out.ZoneName = v.zone.uuid, v.zone.name
	}
	return out
}

func listKubernetesSupportedVersions(c *call) (any, error) {
	least := c.str("minimumsemanticversion")
	if least != "" && !dottedNumber.MatchString(least) {
		return nil, paramError("Invalid version format")
	}
	if c.given("minimumkubernetesversionid") {
		if least != "" {
			return nil, c.internal(csRuntime, "Both parameters minimumsemanticversion and minimumkubernetesversionid can not be passed together")
		}
		v := arg[*kubernetesVersion](c, "minimumkubernetesversionid")
		if v == nil || v.removed {
			return nil, invalid("Invalid minimumkubernetesversionid passed")
		}
		least = v.semantic
	}
	if a := c.str("arch"); a != "" && !slices.Contains(cpuArchs, a) {
		return nil, c.internal(csRuntime, "Unsupported arch type: %s", a)
	}
	var out []*kubernetesVersion
	for _, v := range c.st.kubernetesVersions.rows {
		switch {
		case v.removed || !matches(c, "id", v), c.given("zoneid") && v.zone != nil && !matches(c, "zoneid", v.zone):
		case c.has("keyword") && !like(v.name, c.str("keyword")), c.str("arch") != "" && c.str("arch") != v.arch:
		case least != "" && !v.atLeast(least):
		default:
			out = append(out, v)
		}
	}
	return page(c, "kubernetessupportedversion", out, viewKubernetesVersion)
}

type kubernetesVersionAnswer struct {
	Version kubernetesVersionView `json:"kubernetessupportedversion"`
}

// cpuArchs are the valid architectures of an ISO.
var cpuArchs = []string{"x86_64", "aarch64"}

func addKubernetesSupportedVersion(c *call) (any, error) {
	if !dottedNumber.MatchString(c.str("semanticversion")) {
		return nil, paramError("Invalid version format. Semantic version needed")
	}
	v, err := c.newKubernetesVersion()
	if err != nil {
		return nil, cksError(err)
	}
	c.st.kubernetesVersions.add(v)
	return kubernetesVersionAnswer{viewKubernetesVersion(v)}, nil
}

func (c *call) newKubernetesVersion() (*kubernetesVersion, error) {
	v := &kubernetesVersion{
		entity: entity{created: c.now}, name: c.str("name"), semantic: c.str("semanticversion"), zone: arg[*zone](c, "zoneid"), arch: "x86_64",
		directDownload: c.boolean("directdownload"), minCPU: c.integer("mincpunumber"), minMemMB: c.integer("minmemory"), isoID: uuid.NewString(),
	}
	if v.minCPU < minNodeCPU {
		return nil, invalid("Invalid value for mincpunumber parameter. Minimum %d vCPUs required.", minNodeCPU)
	}
	if v.minMemMB < minNodeMem {
		return nil, invalid("Invalid value for minmemory parameter. Minimum %dMB memory required", minNodeMem)
	}
	switch n, err := compareVersions(v.semantic, minKubernetes); {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, invalid("New supported Kubernetes version cannot be added as %s is minimum version supported by Kubernetes Service", minKubernetes)
	}
	if c.given("zoneid") && v.zone == nil {
		return nil, invalid("Invalid zone specified")
	}
	if c.str("url") == "" {
		shown := c.str("url")
		if !c.has("url") {
			shown = "null"
		}
		return nil, invalid("Invalid URL for ISO specified, %s", shown)
	}
	if a := c.str("arch"); a != "" {
		if !slices.Contains(cpuArchs, a) {
			return nil, errf(codeInternal, csRuntime, "Unsupported arch type: %s", a)
		}
		v.arch = a
	}
	if v.name == "" {
		v.name = "v" + v.semantic
		if v.zone != nil {
			v.name += "-" + v.zone.name
		}
	}
	v.isoName = v.name + "-Kubernetes-Binaries-ISO"
	return v, nil
}

func updateKubernetesSupportedVersion(c *call) (any, error) {
	v := arg[*kubernetesVersion](c, "id")
	if v == nil || v.removed {
		return nil, cksError(invalid("Invalid Kubernetes version id specified"))
	}
	switch c.str("state") {
	case "Enabled":
		v.disabled = false
	case "Disabled":
		v.disabled = true
	default:
		return nil, cksError(invalid("Invalid value for state parameter"))
	}
	return kubernetesVersionAnswer{viewKubernetesVersion(v)}, nil
}

func deleteKubernetesSupportedVersion(c *call) (*jobSpec, error) {
	v := arg[*kubernetesVersion](c, "id")
	return &jobSpec{run: func(time.Time) (any, error) {
		if v == nil || v.removed {
			return nil, cksError(invalid("Invalid Kubernetes version id specified"))
		}
		if _, used := c.st.kubernetesClusters.find(func(k *kubernetesCluster) bool { return k.version == v }); used {
			return nil, cksError(invalid("Unable to delete Kubernetes version ID: %s. Existing clusters currently using the version.", v.uuid))
		}
		v.removed = true
		return success{true}, nil
	}}, nil
}

// cksError converts an error like the commands of CloudStack Kubernetes Service: an error of any kind becomes an
// internal error with the same text, which normal users see too. An IllegalArgumentException is returned unchanged.
func cksError(err error) error {
	if err == nil {
		return nil
	}
	e := asAPIError(err)
	if e.status == codeParam && e.cs == csGeneric {
		return e
	}
	return errf(codeInternal, csGeneric, "%s", e.text)
}
