// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReasonsHaveARow: a reason names forms that exist and a part of the documentation.
func TestReasonsHaveARow(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/loadbalancers.md")
	require.NoError(t, err)
	s, forms := Load(), map[string]bool{}
	for _, f := range s.Forms {
		forms[f.Name] = true
	}
	for _, test := range s.Tests {
		if test.Cannot != nil {
			assert.Contains(t, string(docs), "\n## "+test.Cannot.Row+"\n", test.Name)
			for _, form := range test.Cannot.In {
				assert.True(t, forms[form], "%s: %s", test.Name, form)
			}
		}
	}
}

// TestJudge judges a test by reports in which another test was skipped.
func TestJudge(t *testing.T) {
	t.Parallel()
	const passed, skipped = `status="passed"/>`, `status="skipped"/>`
	failed := func(text string) string { return fmt.Sprintf(`status="failed"><failure message=%q/></testcase>`, text) }
	for name, tc := range map[string]struct {
		cannot  *Cannot
		rolling bool
		reports []string
		want    Outcome
	}{
		"passed": {reports: []string{passed}, want: Outcome{Result: Passed}},
		"requests": {
			reports: []string{`status="passed"><system-err>total HTTP requests: 8&#xA;Network errors: 1&#xA;` +
				`HTTP errors: 2&#xA;total HTTP requests: 9</system-err></testcase>`},
			want: Outcome{Result: Passed, Requests: 17, Lost: 3},
		},
		"failed":        {reports: []string{failed("no")}, want: Outcome{Result: Failed, Says: "no"}},
		"passed alone":  {reports: []string{failed("no"), passed}, want: Outcome{Result: Passed, Says: "no"}},
		"skipped":       {reports: []string{skipped}, want: Outcome{Result: Failed, Says: "it did not run"}},
		"no report":     {want: Outcome{Result: Failed, Says: "it did not run"}},
		"only at night": {rolling: true},
		"cannot": {cannot: &Cannot{Says: "known"}, reports: []string{failed("is known")},
			want: Outcome{Result: Unable, Says: "is known"}},
		"fails otherwise": {cannot: &Cannot{Says: "known"}, reports: []string{failed("no")},
			want: Outcome{Result: Failed, Says: "no"}},
		"left out": {cannot: &Cannot{}, want: Outcome{Result: Unable}},
		"can now": {cannot: &Cannot{Says: "known"}, reports: []string{passed},
			want: Outcome{Result: Failed, Says: "it passes, and tests.yaml says that it cannot"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.cannot != nil {
				tc.cannot.In = []string{"form"}
			}

			var reports [][]byte
			for _, r := range tc.reports {
				reports = append(reports, []byte(`<testsuites><testsuite>`+
					`<testcase name="[It] LoadBalancers Other should work" `+skipped+
					`<testcase name="[It] [sig-network] LoadBalancers [X] should work (all)" `+r+
					`</testsuite></testsuites>`))
			}

			test := Test{Group: "LoadBalancers", Name: "should work (all)", Rolling: tc.rolling, Cannot: tc.cannot}
			s := Suite{Tests: []Test{test}}
			tc.want.Test = test.Name
			assert.Equal(t, []Outcome{tc.want}, s.Judge("form", false, reports...))
		})
	}
}

// TestPage: the page shows the error of a failed test, and names a test that passed only when it ran alone.
func TestPage(t *testing.T) {
	t.Parallel()
	page := Load().Page("2026-11-28", []Run{{Form: "isolated", Release: "v1.37.1", Outcomes: []Outcome{
		{Test: "ours: this", Result: Failed, Says: "no address"},
		{Test: "ours: that", Result: Passed, Says: "too slow"},
	}}})
	for _, want := range []string{
		"| ours: this | **failed**, 0s |", "isolated, ours: this: no address",
		"isolated, ours: that: passed alone; beside others: too slow",
		"(loadbalancers.md#what-a-service-becomes)",
	} {
		assert.Contains(t, page, want)
	}
}
