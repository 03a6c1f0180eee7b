// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestReport: what cannot be done is not passed, and a refused call fails a run in which all scenarios passed.
func TestReport(t *testing.T) {
	t.Parallel()
	passed := Result{Name: "a", Verdict: Passed, Took: 1500 * time.Millisecond, Calls: 7, Seen: "1|2"}
	for name, c := range map[string]struct {
		report Report
		ok     bool
	}{
		"passed":         {Report{Results: []Result{passed}}, true},
		"cannot":         {Report{Results: []Result{passed, {Name: "b", Verdict: Cannot, Seen: "no VPC offering"}}}, true},
		"cannot at all":  {Report{Results: []Result{{Name: "b", Verdict: Cannot}}}, false},
		"failed":         {Report{Results: []Result{passed, {Name: "b", Verdict: Failed, Seen: "two\nlines"}}}, false},
		"guard":          {Report{Results: []Result{passed}, Refused: []string{"deleteNetwork: id=x"}}, false},
		"something left": {Report{Results: []Result{passed}, Left: errors.New("network n is in use")}, false},
		"nothing run":    {Report{}, false},
	} {
		assert.Equal(t, c.ok, c.report.OK(), name)
		for _, x := range c.report.Results {
			if !strings.Contains(c.report.Markdown(), "| "+x.Name+" |") {
				t.Errorf("%s: no line of %s", name, x.Name)
			}
		}
	}
	if page := (&Report{Results: []Result{passed}}).Markdown(); !strings.Contains(page, `| a | ok | 1.5 | 7 | 1\|2 |`) {
		t.Error(page)
	}
}
