// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestReport: what cannot be done is not passed, and a refused call fails a run in which all scenarios passed.
func TestReport(t *testing.T) {
	t.Parallel()
	passed := Result{Name: "a", Verdict: Passed, Took: 1500 * time.Millisecond, Calls: 7, Seen: "1|2"}
	for name, c := range map[string]struct {
		report Report
		ok     bool
		skips  int
		fails  int
	}{
		"passed":         {Report{Results: []Result{passed}}, true, 0, 0},
		"cannot":         {Report{Results: []Result{passed, {Name: "b", Verdict: Cannot, Seen: "no VPC offering"}}}, true, 1, 0},
		"cannot at all":  {Report{Results: []Result{{Name: "b", Verdict: Cannot}}}, false, 1, 0},
		"failed":         {Report{Results: []Result{passed, {Name: "b", Verdict: Failed, Seen: "two\nlines"}}}, false, 0, 1},
		"guard":          {Report{Results: []Result{passed}, Refused: []string{"deleteNetwork: id=x"}}, false, 0, 1},
		"something left": {Report{Results: []Result{passed}, Left: errors.New("network n is in use")}, false, 0, 1},
		"nothing run":    {Report{}, false, 0, 0},
	} {
		if got := c.report.OK(); got != c.ok {
			t.Errorf("%s: OK is %v", name, got)
		}
		var text bytes.Buffer
		if err := c.report.WriteJUnit(&text); err != nil {
			t.Fatal(err)
		}
		cases := strings.Count(text.String(), "<testcase ")
		if want := fmt.Sprintf(`tests="%d" failures="%d" skipped="%d"`, cases, c.fails, c.skips); cases < len(c.report.Results) || strings.Count(text.String(), want) != 2 {
			t.Errorf("%s: want %s twice\n%s", name, want, text.String())
		}
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
