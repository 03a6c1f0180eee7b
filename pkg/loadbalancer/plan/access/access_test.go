// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/cases"
)

// readRule parses a rule of a test case.
func readRule(t *testing.T, text string) (r Rule) {
	t.Helper()
	r.ID, r.Protocol = text, "tcp"
	text, r.Deleting = strings.CutPrefix(text, "deleting ")
	ports, sources, _ := strings.Cut(text, " ")
	_, err := fmt.Sscanf(ports, "%d-%d", &r.StartPort, &r.EndPort)
	require.NoError(t, err, text)
	r.CIDRs = strings.Split(sources, ",")
	return r
}

// stages returns changes as text, one word for each stage.
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
	cases.Run(t, "testdata/plan.yaml", func(t *testing.T, _ string, c struct {
		Ports               []int
		Ranges, Own, Others []string
		Want                []string
	}) {
		var own []Rule
		for _, text := range c.Own {
			own = append(own, readRule(t, text))
		}
		var others []Rule
		for _, text := range c.Others {
			others = append(others, readRule(t, text))
		}

		assert.Equal(t, c.Want, stages(Plan(map[string][]int{"tcp": c.Ports}, c.Ranges, own, others, true)))
	})
}
