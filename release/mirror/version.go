// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/pkg/version"
)

// ReleaseVersion returns a release's version without v; by default this program's own, if it is of a release.
func ReleaseVersion(given string) (string, error) {
	if given == "" {
		if strings.HasPrefix(version.Version, "v0.0.0") {
			return "", fmt.Errorf("names the release: this csccm is of none (%s)", version.Version)
		}
		given = version.Version
	}
	parsed, err := semver.StrictNewVersion(strings.TrimPrefix(given, "v"))
	if err != nil {
		return "", fmt.Errorf("%q: want a version such as v1.2.3", given)
	}
	return parsed.String(), nil
}
