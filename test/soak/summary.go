// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// print writes the counts and measurements of the run as tables.
func (r *run) print(took time.Duration) {
	w := tabwriter.NewWriter(r.Out, 0, 0, 2, ' ', 0)
	line := func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				_, _ = fmt.Fprint(w, "\t") // a write error is ignored: there is no other place for the report
			}
			_, _ = fmt.Fprint(w, c)
		}
		_, _ = fmt.Fprintln(w)
	}
	line("change", "times")
	sum := 0
	for _, a := range acts {
		line(a.name, r.done[a.name])
		sum += r.done[a.name]
	}
	line("all", sum)
	line()

	r.watch.mu.Lock()
	checks, failed, calls := r.watch.checks, r.watch.failed, maps.Clone(r.watch.calls)
	broken := len(r.watch.broken)
	r.watch.mu.Unlock()
	line("call of the controller", "times", "per minute")
	all := 0
	commands := slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b)) })
	for _, c := range commands {
		line(c, calls[c], fmt.Sprintf("%.1f", float64(calls[c])/took.Minutes()))
		all += calls[c]
	}
	line("all", all, fmt.Sprintf("%.1f", float64(all)/took.Minutes()))
	line("of them failed", failed, fmt.Sprintf("%.1f", float64(failed)/took.Minutes()))
	line()

	if early, late, ok := r.gauges.ends(); ok {
		line("the controller", "earlier", "at the end")
		line("goroutines", early.goroutines, late.goroutines)
		line("heap", fmt.Sprintf("%.1f MiB", early.heap/mib), fmt.Sprintf("%.1f MiB", late.heap/mib))
		line("resident memory", fmt.Sprintf("%.1f MiB", early.resident/mib), fmt.Sprintf("%.1f MiB", late.resident/mib))
		line()
	}
	line("Services at the end, all as asked", r.served)
	line("looks for broken promises", checks)
	line("broken promises", broken)
	_ = w.Flush() // a write error is ignored, as above
}
