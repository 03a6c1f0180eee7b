// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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
			return 0, wire.ParamError("Invalid version format, %s. Semantic version should be specified in MAJOR.MINOR.PATCH format", v)
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

// atLeast is compareVersions for a validated version.
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
