// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	goldenTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000$`)
	// internalID finds the database's ids and times inside texts.
	internalID = regexp.MustCompile(`((?i:\bid)=|"id":|"networkId":|"id": |"networkofferingid": |\bin domain |\[|i-\d+-|\bID |zone |rule:|PrjAcct-k8s-project-)\d+`)
	vlanURI    = regexp.MustCompile(`vlan://\d+`)
	randomUser = regexp.MustCompile(`for user id \[[0-9a-f-]+\]`)
)

// volatile members differ from call to call: counters of traffic, figures of the machine, and what follows from the choice of a host.
var volatile = setOf("receivedbytes", "sentbytes", "gputotal", "gpuused", "hostname", "hostid", "vlanname", "vlan",
	"cpuallocated", "cpuallocatedvalue", "cpuallocatedpercentage", "cpuallocatedwithoverprovisioning", "memoryallocated",
	"memoryallocatedpercentage", "memoryallocatedbytes")

// unordered arrays are sets of named objects; the server's order is that of a hash table.
var unordered = setOf("api", "params", "response", "service", "capability", "affinitygroup", "tag", "tags")

// compare returns how the answer differs from the recording; empty when it does not.
func (r *replayer) compare(c *goldenCase, got reply) string {
	if got.status != c.HTTPStatus {
		return fmt.Sprintf("status %d instead of %d: %s", got.status, c.HTTPStatus, brief(got.body))
	}
	if c.Case == "auth.root" || c.Case == "auth.wrong-path" {
		return "" // HTML: the status is all that counts
	}
	if c.ContentType != "" && !strings.EqualFold(strings.ReplaceAll(c.ContentType, " ", ""), strings.ReplaceAll(got.contentType, " ", "")) {
		return fmt.Sprintf("content type %q instead of %q", got.contentType, c.ContentType)
	}
	return r.diff("", "", c.Response, got.body)
}

func brief(v any) string {
	s := fmt.Sprint(v)
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// diff compares two values at a path; key is the name of the member that holds them.
func (r *replayer) diff(path, key string, want, got any) string {
	if volatile[key] {
		return ""
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: %s instead of an object", path, brief(got))
		}
		return r.diffObject(path, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return fmt.Sprintf("%s: %d items instead of %d: %s", path, len(g), len(w), brief(names(g)))
		}
		if unordered[key] {
			w, g = byName(w), byName(g)
		}
		for i := range w {
			if d := r.diff(fmt.Sprintf("%s[%d]", path, i), key, w[i], g[i]); d != "" {
				return d
			}
		}
		return ""
	case string:
		g, ok := got.(string)
		if !ok || !r.sameText(w, g) {
			return fmt.Sprintf("%s: %s instead of %q", path, brief(got), w)
		}
		return ""
	case json.Number:
		g, ok := got.(json.Number)
		if !ok || w.String() != g.String() && !sameFloat(w, g) {
			return fmt.Sprintf("%s: %v instead of %v", path, got, want)
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s: %v instead of %v", path, got, want)
	}
	return ""
}

func sameFloat(a, b json.Number) bool {
	x, err1 := a.Float64()
	y, err2 := b.Float64()
	return err1 == nil && err2 == nil && x == y
}

func (r *replayer) diffObject(path string, want, got map[string]any) string {
	// Ids first: a newly made object takes over the recorded one.
	for _, k := range slices.Sorted(mapsKeys(want)) {
		if _, ok := got[k]; !ok {
			return fmt.Sprintf("%s: member %s is missing (recorded %s)", path, k, brief(want[k]))
		}
	}
	for _, k := range slices.Sorted(mapsKeys(got)) {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%s: member %s (%s) was not recorded", path, k, brief(got[k]))
		}
	}
	for _, k := range slices.Sorted(mapsKeys(want)) {
		if d := r.diff(path+"."+k, k, want[k], got[k]); d != "" {
			return d
		}
	}
	return ""
}

func mapsKeys(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// sameText compares texts with ids, times and secrets normalised.
func (r *replayer) sameText(want, got string) bool {
	switch {
	case want == got, want == "REDACTED" && got != "", goldenTime.MatchString(want) && goldenTime.MatchString(got):
		return true
	}
	if uuidPattern.FindString(want) == want && uuidPattern.FindString(got) == got && want != "" {
		return r.sameID(want, got)
	}
	normal := func(s string) string {
		s = randomUser.ReplaceAllString(s, "for user id [X]")
		s = vlanURI.ReplaceAllString(s, "vlan://N")
		return internalID.ReplaceAllString(s, "${1}N")
	}
	return normal(want) == normal(got)
}

// aliases are ids that the recordings show for one and the same account: it was made anew in between.
var aliases = map[string]string{"b47471d4-0dda-4dd7-8533-b941858b3123": "5476f21b-9598-4a85-a2b6-bc04a8da5636"}

// sameID makes a fresh object of ours take the recorded id, and keeps other pairs of ids one to one.
func (r *replayer) sameID(want, got string) bool {
	if aliases[want] == got || !r.recorded[got] && r.h.sim.st.rekey(got, want) {
		return true
	}
	if old, ok := r.learned[want]; ok {
		return old == got
	}
	r.learned[want] = got
	return !r.recorded[got]
}

// rekey gives the row with UUID from the UUID to, unless a row has that already.
func (st *state) rekey(from, to string) bool {
	return rekeyIn(st.lbRules, from, to) ||
		rekeyIn(st.fwRules, from, to) ||
		rekeyIn(st.pfRules, from, to) ||
		rekeyIn(st.jobs, from, to) ||
		rekeyIn(st.accounts, from, to) ||
		rekeyIn(st.users, from, to) ||
		rekeyIn(st.roles, from, to) ||
		rekeyIn(st.projects, from, to) ||
		rekeyIn(st.aclItems, from, to) ||
		rekeyIn(st.aclLists, from, to) ||
		rekeyIn(st.vms, from, to) ||
		rekeyIn(st.domains, from, to) ||
		rekeyIn(st.netOffs, from, to) ||
		rekeyIn(st.policies, from, to) ||
		rekeyIn(st.certs, from, to) ||
		rekeyIn(st.kubernetesClusters, from, to) ||
		rekeyIn(st.kubernetesVersions, from, to) ||
		rekeyIn(st.nics, from, to) ||
		rekeyIn(st.secondary, from, to) ||
		rekeyIn(st.volumes, from, to)
}

func rekeyIn[T row](t *table[T], from, to string) bool {
	v, ok := t.get(from)
	if !ok {
		return false
	}
	if _, taken := t.get(to); taken {
		return false
	}
	t.rename(v, to)
	return true
}

func names(list []any) []string {
	var out []string
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			for _, k := range []string{"name", "ipaddress", "username", "key", "id"} {
				if s, ok := m[k].(string); ok {
					out = append(out, s)
					break
				}
			}
		}
	}
	return out
}

// byName sorts objects by their name.
func byName(list []any) []any {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return out
}

func sortKey(v any) string {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return "~"
	}
	return fmt.Sprint(m["name"], m["type"], m["key"], m["resourceid"])
}
