// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:generate go run ./gen

// Minor is a minor version of Kubernetes from which a control plane is built, such as 1.37.
type Minor string

// Newest is the default minor of tests and the demo.
const Newest Minor = "1.37"

// releases holds the patch release that is built for each minor.
var releases = map[Minor]string{
	"1.34": "v1.34.4",
	"1.35": "v1.35.4",
	"1.36": "v1.36.3",
	"1.37": "v1.37.1",
}

// Version is the Kubernetes release of the newest control plane.
var Version = Newest.Release()

// Minors returns all minors, newest first.
func Minors() []Minor {
	all := slices.Sorted(maps.Keys(releases))
	slices.Reverse(all)
	return all
}

// ParseMinor parses a minor, such as "1.36".
func ParseMinor(text string) (Minor, error) {
	if _, ok := releases[Minor(text)]; !ok {
		return "", fmt.Errorf("no control plane of Kubernetes %s: there are %v", text, Minors())
	}
	return Minor(text), nil
}

// Release returns the patch release that is built for the minor, such as v1.37.1.
func (m Minor) Release() string { return releases[m] }

// Staging returns the version of the libraries published with the release, such as v0.37.1.
func (m Minor) Staging() string { return "v0" + strings.TrimPrefix(m.Release(), "v1") }

// Folder returns the name of the minor's module folder in this package's folder, such as k37.
func (m Minor) Folder() string {
	_, number, _ := strings.Cut(string(m), ".")
	return "k" + number
}
