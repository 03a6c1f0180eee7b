// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// docs is the folder of docs/ui.md's pictures and report if they are to be written, and "" otherwise.
var docs = os.Getenv("CSCCM_UI_DOCS")

// axe is Deque's accessibility checker, as npm has it and vendor.json pins it.
var axe = sync.OnceValues(func() (string, error) {
	content, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	pinned, unread := os.ReadFile(filepath.Join("testdata", "axe", "vendor.json"))
	if sum := sha256.Sum256(content); !strings.Contains(string(pinned), hex.EncodeToString(sum[:])) {
		unread = errors.Join(unread, errors.New("axe.min.js is not the file that vendor.json pins"))
	}
	return string(content), errors.Join(err, unread)
})

// finding is a rule of axe with what it found.
type finding struct {
	ID, Impact, Help string
	Nodes            []string
}

// audit is what axe says of one state of the page.
type audit struct {
	Where                       string
	Passed                      []string
	Violations, Incomplete, All []finding
}

// accessible fails the test for every violation of WCAG 2.2 AA or of axe's best practices.
func accessible(tb *tab, where string) audit {
	tb.Helper()
	source, err := axe()
	if err != nil {
		tb.Fatal(err)
	}
	if !value[bool](tb, `'axe' in window`) {
		tb.do(chromedp.Evaluate[chromedp.Void](source))
	}
	out := value[audit](tb, `axe.run(document, {resultTypes: ['violations', 'incomplete']}).then((r) => {
	const brief = (list) => list.map((v) => ({ID: v.id, Impact: v.impact || '', Help: v.help, Nodes: v.nodes.map((n) => n.target.join(' ') + ': ' + n.any.concat(n.all).map((c) => c.message).join('; ')).slice(0, 3)}));
	return {Passed: r.passes.map((p) => p.id), Violations: brief(r.violations), Incomplete: brief(r.incomplete)};
})`)
	out.Where = where
	if len(out.Passed) < 10 {
		tb.Errorf("%s: axe applied only %d rules", where, len(out.Passed))
	}
	for _, v := range out.Violations {
		tb.Errorf("%s: %s (%s): %s\n  %s", where, v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n  "))
	}
	return out
}

// TestAccessibility audits every view, dark and light, with details open, with groups, and on a narrow screen.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	var audits []audit
	t.Cleanup(func() {
		if docs == "" || t.Failed() {
			return
		}
		if err := os.WriteFile(filepath.Join(docs, "accessibility.txt"), []byte(accessibilityReport(audits)), 0o644); err != nil {
			t.Error(err)
		}
	})
	for name, l := range map[string]look{"light": desk, "dark": {width: 1440, height: 900, dark: true, calm: true}, "narrow": {width: 400, height: 800}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := show(t, l, faulty(sample(70, 12)))
			check := func(what string) {
				t.Helper()
				a := accessible(e.tab, what+", "+name)
				mutex.Lock()
				defer mutex.Unlock()
				audits = append(audits, a)
			}
			for _, v := range views {
				e.view(v)
				check(v)
			}
			if got := value[string](e.tab, `getComputedStyle(document.querySelector('.column li')).transitionDuration`); (got == "0s") != l.calm {
				t.Errorf("boxes move for %s, with reduced motion: %v", got, l.calm)
			}
			e.view("map")
			e.choose("service/team-00/web-0007")
			check("details")
		})
	}
}

// accessibilityReport writes the audits for docs/ui.md.
func accessibilityReport(audits []audit) string {
	slices.SortFunc(audits, func(a, b audit) int { return strings.Compare(a.Where, b.Where) })
	var out strings.Builder
	out.WriteString("axe-core 4.14.1, all rules (WCAG 2.0 to 2.2 A and AA, best practices), Chromium without a screen\n\n")
	_, _ = fmt.Fprintf(&out, "%-20s %10s %6s  %s\n", "view", "violations", "passed", "left to people")
	for _, a := range audits {
		var open []string
		for _, f := range a.Incomplete {
			open = append(open, fmt.Sprintf("%s (%d)", f.ID, len(f.Nodes)))
		}
		_, _ = fmt.Fprintf(&out, "%-20s %10d %6d  %s\n", a.Where, len(a.Violations), len(a.Passed), strings.Join(open, ", "))
	}
	return out.String()
}
