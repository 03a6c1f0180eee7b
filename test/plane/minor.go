// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"slices"
	"strings"
)

//go:generate go run ./gen

// Minor is a minor version of Kubernetes, such as 1.37, that a control plane is built
// from. The zero value is the newest.
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

// Minors returns all minors, the newest first.
func Minors() []Minor {
	all := make([]Minor, 0, len(releases))
	for m := range releases {
		all = append(all, m)
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// ParseMinor parses "1.36", "v1.36" or the full release; empty is the newest minor.
func ParseMinor(text string) (Minor, error) {
	if text == "" {
		return Newest, nil
	}
	for m, release := range releases {
		if v := strings.TrimPrefix(text, "v"); v == string(m) || "v"+v == release {
			return m, nil
		}
	}
	return "", fmt.Errorf("no control plane of Kubernetes %s: there are %v", text, Minors())
}

// Release returns the patch release that is built for the minor, such as v1.37.1.
func (m Minor) Release() string { return releases[m.orNewest()] }

// Staging returns the version of the libraries published with the release, such as v0.37.1.
func (m Minor) Staging() string { return "v0" + strings.TrimPrefix(m.Release(), "v1") }

// Folder returns the name of the minor's module folder in this package's folder, such as k37.
func (m Minor) Folder() string {
	_, number, _ := strings.Cut(string(m.orNewest()), ".")
	return "k" + number
}

// sourceDir returns the path of the minor's module relative to the test module.
func (m Minor) sourceDir() string { return "plane/" + m.Folder() }

func (m Minor) orNewest() Minor {
	if m == "" {
		return Newest
	}
	return m
}
