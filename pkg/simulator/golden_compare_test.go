// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

var (
	goldenTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000$`)
	// internalID finds the database's ids and times inside texts.
	internalID = regexp.MustCompile(`((?i:\bid)=|"id":|"networkId":|"id": |"networkofferingid": |\bin domain |\[|\bID |zone |rule:|PrjAcct-k8s-project-)\d+`)
	instance   = regexp.MustCompile(`\bi-\d+-\d+-VM`)
	vlanURI    = regexp.MustCompile(`vlan://\d+`)
	randomUser = regexp.MustCompile(`for user id \[[0-9a-f-]+\]`)
)

// volatile members differ from call to call: counters of traffic, figures of the
// machine and the process, times to the millisecond, and what follows from the choice of a host.
var volatile = store.SetOf("receivedbytes", "sentbytes", "gputotal", "gpuused", "hostname", "hostid", "vlanname", "vlan", "expireAfter",
	"cpuallocated", "cpuallocatedvalue", "cpuallocatedpercentage", "cpuallocatedwithoverprovisioning", "memoryallocated",
	"memoryallocatedpercentage", "memoryallocatedbytes", "availableprocessors", "sessions", "heapmemoryused", "heapmemorytotal",
	"threadsdaemoncount", "threadsrunnablecount", "threadstotalcount", "threadswaitingcount", "systemmemorytotal", "systemmemoryfree",
	"systemmemoryvirtualsize", "systemtotalcpucycles", "systemloadaverages", "systemcycleusage", "cpuload", "javadistribution",
	"javaversion", "osdistribution", "kernelversion", "agents", "lastagents", "agentcount", "agentscount")

// unordered arrays are sets of named objects; the server's order is that of a hash table.
var unordered = store.SetOf("api", "params", "response", "service", "capability", "affinitygroup", "tag", "tags")

// comparer finds the first difference between a recorded answer and ours.
type comparer struct {
	same func(want, got string) bool // compares texts
	ours func(string) string         // puts our ids in the place of recorded ones
}

func brief(v any) string {
	s := fmt.Sprint(v)
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// diff compares two values at a path; key is the name of the member that holds them.
func (d *comparer) diff(path, key string, want, got any) string {
	if volatile[key] {
		if w, g := fmt.Sprintf("%T", want), fmt.Sprintf("%T", got); w != g {
			return fmt.Sprintf("%s: %s instead of %s", path, g, w)
		}
		return ""
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: %s instead of an object", path, brief(got))
		}
		return d.diffObject(path, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return fmt.Sprintf("%s: %d items instead of %d: %s", path, len(g), len(w), brief(names(g)))
		}
		if unordered[key] {
			w, g = byName(w, d.ours), byName(g, nil)
		}
		for i := range w {
			if why := d.diff(fmt.Sprintf("%s[%d]", path, i), key, w[i], g[i]); why != "" {
				return why
			}
		}
		return ""
	case string:
		g, ok := got.(string)
		if !ok || !d.same(w, g) {
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

func (d *comparer) diffObject(path string, want, got map[string]any) string {
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
		if why := d.diff(path+"."+k, k, want[k], got[k]); why != "" {
			return why
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
func byName(list []any, ours func(string) string) []any {
	out := slices.Clone(list)
	key := func(v any) string {
		if ours == nil {
			return sortKey(v)
		}
		return ours(sortKey(v))
	}
	slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	return out
}

func sortKey(v any) string {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return "~"
	}
	return fmt.Sprint(m["name"], m["type"], m["key"], m["resourceid"])
}
