// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

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
	ok := Result{Name: "a", Verdict: passed, Took: 1500 * time.Millisecond, Calls: 7, Seen: "1|2"}
	for name, c := range map[string]struct {
		report Report
		ok     bool
	}{
		"passed":         {Report{Results: []Result{ok}}, true},
		"cannot":         {Report{Results: []Result{ok, {Name: "b", Verdict: unable, Seen: "no VPC offering"}}}, true},
		"cannot at all":  {Report{Results: []Result{{Name: "b", Verdict: unable}}}, false},
		"failed":         {Report{Results: []Result{ok, {Name: "b", Verdict: failed, Seen: "two\nlines"}}}, false},
		"guard":          {Report{Results: []Result{ok}, Refused: []string{"deleteNetwork: id=x"}}, false},
		"something left": {Report{Results: []Result{ok}, Left: errors.New("network n is in use")}, false},
		"nothing run":    {Report{}, false},
	} {
		assert.Equal(t, c.ok, c.report.OK(), name)
		for _, x := range c.report.Results {
			if !strings.Contains(c.report.Markdown(), "| "+x.Name+" |") {
				t.Errorf("%s: no line of %s", name, x.Name)
			}
		}
	}
	if page := (&Report{Results: []Result{ok}}).Markdown(); !strings.Contains(page, `| a | ok | 1.5 | 7 | 1\|2 |`) {
		t.Error(page)
	}
}
