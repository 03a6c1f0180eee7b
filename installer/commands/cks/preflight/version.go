// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// isoReady is the state of an ISO that VMs can use.
const isoReady = "Ready"

// number is a version of Kubernetes: major, minor, patch.
type number [3]int

var dotted = regexp.MustCompile(`^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}$`)

func parseNumber(s string) (n number, ok bool) {
	if !dotted.MatchString(s) {
		return n, false
	}
	for i, part := range strings.Split(s, ".") {
		n[i], _ = strconv.Atoi(part)
	}
	return n, true
}

// Step reports whether CloudStack upgrades from one version to another: to a newer patch, or to the next minor. why says
// why not.
func Step(from, to string) (why string) {
	a, okA := parseNumber(from)
	b, okB := parseNumber(to)
	switch {
	case !okA || !okB:
		return "versions must have the form MAJOR.MINOR.PATCH"
	case a == b:
		return "the cluster has this version already"
	case slices.Compare(b[:], a[:]) < 0:
		return "CloudStack cannot downgrade a cluster"
	case a[0] != b[0] || b[1] > a[1]+1:
		return "CloudStack upgrades to a newer patch or to the next minor version only"
	}
	return ""
}

func versionObject(v *cloudstack.KubernetesVersion) string {
	if v.Name == "" || strings.Contains(v.Name, v.Semantic) {
		return "version " + v.Semantic
	}
	return "version " + v.Semantic + " (" + v.Name + ")"
}

// usable adds findings about a version that a cluster in the zone is to run.
func (c *check) usable(v *cloudstack.KubernetesVersion, zoneID string, controlNodes int) {
	object := versionObject(v)
	if v.State == cloudstack.VersionDisabled {
		c.fail("version-disabled", object, "choose an Enabled version, or ask an administrator to enable this one", "it is Disabled")
	}
	if v.ZoneID != "" && v.ZoneID != zoneID {
		c.fail("version-zone", object, "choose a version of the cluster's zone or of all zones", "it is for zone %s only", v.ZoneName)
	}
	switch v.ISOState {
	case isoReady:
	case "":
		c.fail("iso-missing", object, "ask an administrator to delete the version and to add it again", "its ISO no longer exists")
	default:
		c.fail("iso-not-ready", object, "wait until the ISO is downloaded; if it stays so, ask an administrator whether its URL can be reached",
			"its ISO %s is not Ready: %s", v.ISOName, v.ISOState)
	}
	if controlNodes > 1 && !v.SupportsHA {
		c.fail("version-ha", object, "choose a newer version, or one control node", "it does not support more than one control node")
	}
}

// next names the versions that an upgrade can go to, newest first.
func (f *Facts) next(from *cloudstack.KubernetesVersion, zoneID string) []string {
	var can []cloudstack.KubernetesVersion
	for _, v := range f.Versions {
		try := newCheck(f)
		try.usable(&v, zoneID, 1)
		if Step(from.Semantic, v.Semantic) == "" && sameArch(from, &v) && len(try.findings) == 0 {
			can = append(can, v)
		}
	}
	slices.SortFunc(can, func(a, b cloudstack.KubernetesVersion) int {
		x, _ := parseNumber(a.Semantic)
		y, _ := parseNumber(b.Semantic)
		return slices.Compare(y[:], x[:])
	})
	var names []string
	for i := range can {
		names = append(names, can[i].Semantic)
	}
	return slices.Compact(names)
}

// sameArch reports whether two versions can be for the same machines; servers before 4.20.1 do not say.
func sameArch(a, b *cloudstack.KubernetesVersion) bool {
	return a.Arch == "" || b.Arch == "" || a.Arch == b.Arch
}

// step adds findings about the way from one version to another.
func (c *check) step(from, to *cloudstack.KubernetesVersion, zoneID string) {
	remedy := "CloudStack has no version that this cluster can be upgraded to: ask an administrator to add one"
	if can := c.next(from, zoneID); len(can) > 0 {
		remedy = "upgrade to " + either(can)
	}
	if why := Step(from.Semantic, to.Semantic); why != "" {
		c.fail("version-step", versionObject(to), remedy, "the cluster has version %s: %s", from.Semantic, why)
	}
	if !sameArch(from, to) {
		c.fail("version-arch", versionObject(to), remedy, "it is for %s, and the nodes are %s", to.Arch, from.Arch)
	}
}
