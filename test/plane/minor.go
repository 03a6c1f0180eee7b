// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"slices"
	"strings"
)

//go:generate go run ./gen

// Minor is a minor version of Kubernetes, like 1.37, that a control plane is built
// from. The empty one is the newest.
type Minor string

// Newest is the minor that tests and the demo use unless told otherwise.
const Newest Minor = "1.37"

// releases says which patch release stands for a minor.
var releases = map[Minor]string{
	"1.35": "v1.35.4",
	"1.36": "v1.36.3",
	"1.37": "v1.37.1",
}

// Version is the Kubernetes release of the newest control plane.
var Version = Newest.Release()

// Minors are all minors, the newest first.
func Minors() []Minor {
	all := make([]Minor, 0, len(releases))
	for m := range releases {
		all = append(all, m)
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// ParseMinor takes "1.36", "v1.36" and the release itself; empty is the newest.
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

// Release is the release that stands for the minor, like v1.37.1.
func (m Minor) Release() string { return releases[m.orNewest()] }

// Staging is the version of the libraries published with the release, like v0.37.1.
func (m Minor) Staging() string { return "v0" + strings.TrimPrefix(m.Release(), "v1") }

// Folder is the name of the minor's module next to this package, like k37.
func (m Minor) Folder() string {
	_, number, _ := strings.Cut(string(m.orNewest()), ".")
	return "k" + number
}

// sourceDir is where the minor's module is, seen from the test module.
func (m Minor) sourceDir() string { return "plane/" + m.Folder() }

func (m Minor) orNewest() Minor {
	if m == "" {
		return Newest
	}
	return m
}
