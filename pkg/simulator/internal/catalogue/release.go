// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Release is a release of CloudStack: 4.19.2 is {4, 19, 2}.
type Release [3]int

// OldestRelease is the oldest release that the simulator supports. Differences lists what the later releases added.
var OldestRelease = Release{4, 16}

var newestRelease = Release{4, 22}

// Releases returns the valid values of --cloudstack-version, the oldest first.
func Releases() []string {
	var out []string
	for minor := OldestRelease[1]; minor <= newestRelease[1]; minor++ {
		out = append(out, fmt.Sprintf("%d.%d", OldestRelease[0], minor))
	}
	return out
}

// FullVersion returns a release in the format of listCapabilities: 4.19 is 4.19.0.0.
func FullVersion(version string) (string, error) {
	if _, err := ParseRelease(version); err != nil {
		return "", err
	}
	number, suffix, _ := strings.Cut(version, "-")
	for strings.Count(number, ".") < 3 {
		number += ".0"
	}
	if suffix != "" {
		number += "-" + suffix
	}
	return number, nil
}

// ParseRelease parses the CloudStack version of a world: 4.19, 4.19.2, 4.22.0.0-SNAPSHOT.
func ParseRelease(version string) (Release, error) {
	number, _, _ := strings.Cut(version, "-")
	r, ok := ReadRelease(number)
	if !ok || strings.Count(number, ".") == 0 || r.Before(OldestRelease) || newestRelease.Before(Release{r[0], r[1]}) {
		return r, fmt.Errorf("CloudStack %q: there are %s to %s", version, Releases()[0], Releases()[len(Releases())-1])
	}
	return r, nil
}

// ReadRelease parses dotted numbers. It ignores the fourth number, which does not affect features.
func ReadRelease(text string) (r Release, ok bool) {
	for i, part := range strings.Split(strings.TrimSuffix(text, "+"), ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return r, false
		}
		if i < len(r) {
			r[i] = n
		}
	}
	return r, true
}

// Before reports whether the release is older than o.
func (r Release) Before(o Release) bool { return slices.Compare(r[:], o[:]) < 0 }

// Lacks reports whether the release is older than since, such as 4.18.0.0. It returns false if since is empty.
func (r Release) Lacks(since string) bool {
	mark, ok := ReadRelease(since)
	return ok && since != "" && r.Before(mark)
}

// At returns the catalogue of a release, without commands and parameters that newer releases added. Like CloudStack,
// the simulator ignores unknown parameters.
func (cat *Catalogue) At(r Release) *Catalogue {
	if !r.Before(newestRelease) {
		return cat
	}

	out := &Catalogue{Shapes: slices.Clone(cat.Shapes), Hides: map[string][]string{}}
	unmarked := map[string]bool{}
	for _, d := range Differences {
		if !r.Lacks(d.Since) {
			continue
		}
		for _, name := range d.Commands {
			unmarked[name] = true
		}
		for kind, fields := range d.Fields {
			for _, key := range AnswerObjects[kind].keys {
				out.Hides[key] = append(out.Hides[key], fields...)
			}
			n := cat.ByName[AnswerObjects[kind].Command].Shape
			out.Shapes[n] = slices.DeleteFunc(slices.Clone(out.Shapes[n]),
				func(f Field) bool { return slices.Contains(fields, f.Name) })
		}
	}

	for i := range cat.APIs {
		a := cat.APIs[i]
		if r.Lacks(a.Since) || unmarked[a.Name] {
			continue
		}
		a.Absent = nil
		known := make([]Param, 0, len(a.Params))
		for _, p := range a.Params {
			if r.Lacks(p.Since) {
				a.Absent = append(a.Absent, strings.ToLower(p.Name))
				continue
			}
			known = append(known, p)
		}
		a.Params = known
		out.APIs = append(out.APIs, a)
	}

	out.index()
	out.RouterTLS = !r.Lacks(routerTLSSince)
	return out
}

// DifferencesPart is the name of the section of docs/support-policy.md that DifferencesTable generates (docs/pages).
const DifferencesPart = "releases of CloudStack: written by go generate ./pkg/simulator"

// DifferencesTable returns, as a Markdown table, the Differences that change what csccm does.
func DifferencesTable() string {
	var b strings.Builder
	b.WriteString("| since | what | csccm on older releases |\n|---|---|---|\n")
	for _, d := range Differences {
		if d.Without != "" {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", d.Since, d.What, d.Without)
		}
	}
	return b.String()
}
