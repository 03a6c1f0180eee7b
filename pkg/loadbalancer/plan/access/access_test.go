// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/csccm/csccm/pkg/annotation"
)

func open(from, to int, cidrs ...string) Rule {
	return Rule{Range: Range{"tcp", from, to, cidrs}, ID: fmt.Sprintf("%d-%d %v", from, to, cidrs)}
}

// deleting is a rule whose deletion failed.
func deleting(from, to int, cidrs ...string) Rule {
	f := open(from, to, cidrs...)
	f.Deleting = true
	return f
}

// stages writes changes down, one word a stage.
func stages(s Changes) []string {
	out := []string{}
	add := func(word string, f Range) {
		out = append(out, fmt.Sprintf("%s %d-%d %s", word, f.StartPort, f.EndPort, strings.Join(f.CIDRs, ",")))
	}
	for _, f := range s.Cover {
		add("cover", f)
	}
	for _, f := range s.Close {
		add("close", f.Range)
	}
	for _, f := range s.Open {
		add("open", f)
	}
	for _, f := range s.Trim {
		add("trim", f.Range)
	}
	if len(s.Gap) > 0 {
		out = append(out, "gap")
	}
	return out
}

func TestPlanAccess(t *testing.T) {
	t.Parallel()
	all := annotation.Anyone
	for _, tc := range []struct {
		name   string
		ports  []int
		ranges []string
		own    []Rule
		others []Range
		want   []string
	}{
		{name: "nothing is open", ports: []int{80, 81, 443}, ranges: []string{all}, want: []string{"open 80-81 " + all, "open 443-443 " + all}},
		{name: "as wanted", ports: []int{80, 81}, ranges: []string{all}, own: []Rule{open(80, 81, all)}, want: []string{}},
		{name: "as wanted in other words", ports: []int{80}, ranges: []string{all}, own: []Rule{open(80, 80, "0.0.0.0/1", "128.0.0.0/1")}, want: []string{}},
		{
			name: "a port out of a range", ports: []int{80, 82}, ranges: []string{all}, own: []Rule{open(80, 82, all)},
			want: []string{"cover 80-80 0.0.0.0/1,128.0.0.0/1", "cover 82-82 0.0.0.0/1,128.0.0.0/1", "close 80-82 " + all},
		},
		{
			name: "and another one out of what is left", ports: []int{80}, ranges: []string{all}, own: []Rule{open(80, 81, "0.0.0.0/1", "128.0.0.0/1")},
			want: []string{"cover 80-80 " + all, "close 80-81 0.0.0.0/1,128.0.0.0/1"},
		},
		{
			name: "both forms are taken", ports: []int{80}, ranges: []string{all}, own: []Rule{open(80, 81, "0.0.0.0/1", "128.0.0.0/1")},
			others: []Range{{"tcp", 1, 65535, []string{all}}},
			want:   []string{"cover 80-80 0.0.0.0/2,64.0.0.0/2,128.0.0.0/2,192.0.0.0/2", "close 80-81 0.0.0.0/1,128.0.0.0/1"},
		},
		{
			name: "a single source has no halves", ports: []int{80}, ranges: []string{"192.0.2.1/32"}, own: []Rule{open(80, 81, "192.0.2.1/32")},
			want: []string{"close 80-81 192.0.2.1/32", "open 80-80 192.0.2.1/32", "gap"},
		},
		{name: "tightened", ports: []int{80}, ranges: []string{"10.0.0.0/8"}, own: []Rule{open(80, 80, all)}, want: []string{"cover 80-80 10.0.0.0/8", "close 80-80 " + all}},
		{name: "widened", ports: []int{80}, ranges: []string{all}, own: []Rule{open(80, 80, "10.0.0.0/8")}, want: []string{"open 80-80 " + all, "trim 80-80 10.0.0.0/8"}},
		{
			name: "widened, and a port goes", ports: []int{80}, ranges: []string{all}, own: []Rule{open(80, 81, "10.0.0.0/8")},
			want: []string{"cover 80-80 " + all, "close 80-81 10.0.0.0/8"},
		},
		{
			name: "one range wider, another gone", ports: []int{80}, ranges: []string{"10.0.0.0/8"}, own: []Rule{open(80, 80, "10.1.0.0/16", "172.16.0.0/12")},
			want: []string{"close 80-80 10.1.0.0/16,172.16.0.0/12", "open 80-80 10.0.0.0/8", "gap"},
		},
		{
			name: "as wanted, but going", ports: []int{80}, ranges: []string{all}, own: []Rule{deleting(80, 80, all)},
			want: []string{"cover 80-80 " + all, "trim 80-80 " + all},
		},
		{
			name: "a single source, going", ports: []int{80}, ranges: []string{"192.0.2.1/32"}, own: []Rule{deleting(80, 81, "192.0.2.1/32")},
			want: []string{"cover 80-80 192.0.2.1/32", "close 80-81 192.0.2.1/32"},
		},
		{
			name: "back to what is going", ports: []int{80}, ranges: []string{"10.0.0.0/8"}, own: []Rule{deleting(80, 80, "10.0.0.0/8"), open(80, 80, "172.16.0.0/12")},
			want: []string{"cover 80-80 10.0.0.0/8", "close 80-80 172.16.0.0/12", "trim 80-80 10.0.0.0/8"},
		},
		{
			name: "not wanted, and going", ports: []int{80}, ranges: []string{"10.0.0.0/8"}, own: []Rule{open(80, 80, "10.0.0.0/8"), deleting(80, 80, all)},
			want: []string{"close 80-80 " + all},
		},
		{name: "closed to all", ports: []int{80}, own: []Rule{open(80, 80, all)}, want: []string{"close 80-80 " + all}},
		{
			name: "beside a rule of others with the same range", ports: []int{80}, ranges: []string{all}, others: []Range{{"tcp", 1, 100, []string{all}}},
			want: []string{"open 80-80 0.0.0.0/1,128.0.0.0/1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, stages(Plan(map[string][]int{"tcp": tc.ports}, tc.ranges, tc.own, tc.others, true)))
		})
	}
}
