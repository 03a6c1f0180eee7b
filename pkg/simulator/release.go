// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// release is a release of CloudStack: 4.19.2 is {4, 19, 2}.
type release [3]int

// The oldest and the newest release that the simulator supports. Differences lists what the releases after the oldest
// added.
var oldestRelease, newestRelease = release{4, 16}, release{4, 22}

// Releases returns the valid values of --cloudstack-version, the oldest first.
func Releases() []string {
	var out []string
	for minor := oldestRelease[1]; minor <= newestRelease[1]; minor++ {
		out = append(out, fmt.Sprintf("%d.%d", oldestRelease[0], minor))
	}
	return out
}

// FullVersion returns a release in the format of listCapabilities: 4.19 is 4.19.0.0.
func FullVersion(version string) (string, error) {
	if _, err := parseRelease(version); err != nil {
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

// parseRelease parses the version of a world: 4.19, 4.19.2, 4.22.0.0-SNAPSHOT.
func parseRelease(version string) (release, error) {
	number, _, _ := strings.Cut(version, "-")
	r, ok := readRelease(number)
	if !ok || strings.Count(number, ".") == 0 || r.before(oldestRelease) || newestRelease.before(release{r[0], r[1]}) {
		return r, fmt.Errorf("CloudStack %q: there are %s to %s", version, Releases()[0], Releases()[len(Releases())-1])
	}
	return r, nil
}

// readRelease parses dotted numbers. It ignores the fourth number, which does not affect features.
func readRelease(text string) (r release, ok bool) {
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

func (r release) before(o release) bool { return slices.Compare(r[:], o[:]) < 0 }

// lacks reports whether the release is older than since, such as 4.18.0.0. It returns false if since is empty.
func (r release) lacks(since string) bool {
	mark, ok := readRelease(since)
	return ok && since != "" && r.before(mark)
}

// at returns the catalogue of a release, without commands and parameters that newer releases added. Like CloudStack,
// the simulator ignores unknown parameters.
func (cat *catalogue) at(r release) *catalogue {
	if !r.before(newestRelease) {
		return cat
	}
	out := &catalogue{Shapes: slices.Clone(cat.Shapes), hides: map[string][]string{}}
	unmarked := map[string]bool{}
	for _, d := range Differences {
		if !r.lacks(d.Since) {
			continue
		}
		for _, name := range d.Commands {
			unmarked[name] = true
		}
		for kind, fields := range d.Fields {
			for _, key := range answerObjects[kind].keys {
				out.hides[key] = append(out.hides[key], fields...)
			}
			n := cat.byName[answerObjects[kind].command].Shape
			out.Shapes[n] = slices.DeleteFunc(slices.Clone(out.Shapes[n]), func(f apiField) bool { return slices.Contains(fields, f.Name) })
		}
	}
	for i := range cat.APIs {
		a := cat.APIs[i]
		if r.lacks(a.Since) || unmarked[a.Name] {
			continue
		}
		a.absent = nil
		known := make([]apiParam, 0, len(a.Params))
		for _, p := range a.Params {
			if r.lacks(p.Since) {
				a.absent = append(a.absent, strings.ToLower(p.Name))
				continue
			}
			known = append(known, p)
		}
		a.Params = known
		out.APIs = append(out.APIs, a)
	}
	out.index()
	out.routerTLS = !r.lacks(routerTLSSince)
	return out
}

// older removes fields from an answer that newer releases added.
func (cat *catalogue) older(buf *bytes.Buffer) error {
	if cat.hides == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(buf.Bytes()))
	decoder.UseNumber()
	var answer any
	if err := decoder.Decode(&answer); err != nil {
		return err
	}
	cat.hide("", answer)
	buf.Reset()
	return encode(buf, answer)
}

func (cat *catalogue) hide(key string, value any) {
	switch v := value.(type) {
	case []any:
		if key == "capability" && !cat.routerTLS {
			withoutTLS(v)
		}
		for _, item := range v {
			cat.hide(key, item)
		}
	case map[string]any:
		for _, field := range cat.hides[key] {
			delete(v, field)
		}
		for name, member := range v {
			if list, ok := member.([]any); ok && name == "capability" && !cat.routerTLS {
				v[name] = slices.DeleteFunc(list, isTLSCapability)
				member = v[name]
			}
			cat.hide(name, member)
		}
	}
}

// isTLSCapability reports whether item is the capability of load balancers that terminate TLS.
func isTLSCapability(item any) bool {
	c, ok := item.(map[string]any)
	return ok && c["name"] == tlsCapability
}

// withoutTLS removes the protocol ssl from the capabilities of a service.
func withoutTLS(capabilities []any) {
	for _, item := range capabilities {
		c, ok := item.(map[string]any)
		if text, isText := c["value"].(string); ok && isText && c["name"] == "SupportedProtocols" {
			c["value"] = strings.TrimSuffix(text, ", "+protocolSSL)
		}
	}
}

// DifferencesPart is the name of the section of docs/support-policy.md that DifferencesTable generates (docs/pages).
const DifferencesPart = "releases of CloudStack: written by go generate ./pkg/simulator"

// DifferencesTable returns Differences as a Markdown table.
func DifferencesTable() string {
	var b strings.Builder
	b.WriteString("| since | what | csccm on older releases |\n|---|---|---|\n")
	for _, d := range Differences {
		without := d.Without
		if without == "" {
			without = "does not use it"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", d.Since, d.What, without)
	}
	return b.String()
}
