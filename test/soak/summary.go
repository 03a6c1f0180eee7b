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

// print writes the counts and measurements of the run as tables. A write error is ignored: there is no other place for the report.
func (r *run) print(took time.Duration) {
	w := tabwriter.NewWriter(r.Out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	line := func(format string, cells ...any) { _, _ = fmt.Fprintf(w, format+"\n", cells...) }
	sum := 0
	line("change\ttimes")
	for _, a := range acts {
		line("%s\t%d", a.name, r.done[a.name])
		sum += r.done[a.name]
	}
	line("all\t%d\n", sum)

	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	all, calls := 0, r.watch.calls
	perMinute := func(what string, n int) { line("%s\t%d\t%.1f", what, n, float64(n)/took.Minutes()) }
	line("call of the controller\ttimes\tper minute")
	for _, c := range slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b)) }) {
		perMinute(c, calls[c])
		all += calls[c]
	}
	perMinute("all", all)
	perMinute("of them failed", r.watch.failed)
	if early, late, ok := r.gauges.ends(); ok {
		line("\nthe controller\tearlier\tat the end")
		line("goroutines\t%v\t%v", early.goroutines, late.goroutines)
		line("heap\t%.1f MiB\t%.1f MiB", early.heap/mib, late.heap/mib)
		line("resident memory\t%.1f MiB\t%.1f MiB", early.resident/mib, late.resident/mib)
	}
	line("\nServices at the end, all as asked\t%d", r.served)
	line("looks for broken promises\t%d", r.watch.checks)
	line("broken promises\t%d", len(r.watch.broken))
}
