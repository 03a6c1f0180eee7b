// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"math"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/csccm/csccm/pkg/ui/model"
)

// TestScreens: on every screen nothing but the map and tables scrolls sideways, and the parts are where they should be.
func TestScreens(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]look{"phone": {width: 400, height: 800}, "desk": desk, "4k": {width: 3840, height: 2160}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := faulty(sample(70, 12))
			s.Title = "Cluster with-a-name-that-nobody-breaks-anywhere-because-it-has-no-blanks-in-it-at-all"
			e := show(t, l, s)
			fits := func(what string) {
				t.Helper()
				if over := value[int](e.tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s is %d px wider than the screen", what, over)
				}
			}
			for _, v := range views {
				e.view(v)
				fits(v)
			}
			e.view("map")
			e.click(box("fold/services/team-00"))
			e.until(`document.querySelector('[aria-expanded=true]')`)
			e.click(box("service/team-00/web-0007"))
			e.until(`!document.getElementById('details').hidden`)
			fits("the details")
			e.settle()
			e.structure(l.width <= 900)
		})
	}
}

// structure compares where things are, not how they look: fonts differ between machines.
func (e *env) structure(narrow bool) {
	e.Helper()
	type rect struct{ X, Y, W, H float64 }
	at := func(selector string) rect {
		return value[rect](e.tab, `(() => { const r = document.querySelector(`+quote(selector)+`).getBoundingClientRect(); return {X: r.x, Y: r.y, W: r.width, H: r.height} })()`)
	}
	below := func(upper, lower string) {
		e.Helper()
		if a, b := at(upper), at(lower); a.Y+a.H > b.Y+1 {
			e.Errorf("%s %v is not above %s %v", upper, a, lower, b)
		}
	}
	below("header", "main")
	below("#map .tools", "#legend")
	below("#legend", "#map-area")
	details, screen := at("#details"), value[[]float64](e.tab, `[innerWidth, innerHeight]`)
	switch {
	case narrow:
		if details.X > 1 || details.W < screen[0]-1 || details.Y < screen[1]*0.3 || details.Y+details.H > screen[1]+1 {
			e.Errorf("the details %v are not at the bottom of the screen %v", details, screen)
		}
	default:
		if area := at("#map-area"); area.X+area.W > details.X {
			e.Errorf("the map %v reaches into the details %v", area, details)
		}
	}
	// Columns from left to right; boxes of one column below each other, and within their column.
	if got := value[[]string](e.tab, `(() => {
	const wrong = [];
	const rect = (n) => n.getBoundingClientRect();
	const columns = [...document.querySelectorAll('.column')];
	columns.forEach((c, i) => {
		if (i > 0 && rect(columns[i - 1]).right >= rect(c).left) wrong.push('column ' + c.innerText.split('\n')[0]);
		const boxes = [...c.querySelectorAll('.box')];
		boxes.forEach((b, j) => {
			if (j > 0 && rect(boxes[j - 1]).bottom >= rect(b).top) wrong.push('overlap at ' + b.innerText);
			if (rect(b).left < rect(c).left - 1 || rect(b).right > rect(c).right + 1) wrong.push('outside: ' + b.innerText);
		});
	});
	const canvas = rect(document.getElementById('map-canvas'));
	const lines = rect(document.querySelector('#map-canvas svg g'));
	if (lines.width === 0 || lines.bottom > canvas.bottom + 1 || lines.right > canvas.right + 1) wrong.push('links');
	return wrong;
})()`); len(got) > 0 {
		e.Errorf("the map is not in order: %q", got)
	}
}

// TestThousands counts the work for 1,000 Services on 1,000 nodes. Times are measured by BenchmarkPage.
func TestThousands(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(1000, 1000))
	least := func(what string, got, limit int) {
		t.Helper()
		t.Logf("%s: %d", what, got)
		if got > limit {
			t.Errorf("%s: %d, want at most %d", what, got, limit)
		}
	}
	const elements = `document.querySelectorAll('*').length`
	e.want(".column h3", "Services 1000", "Addresses 1000", "Rules and forwards 1202", "Nodes 1000", "VMs 1000", "Networks 1")
	least("elements at first", value[int](e.tab, elements), 1200)
	least("paths of links", value[int](e.tab, `document.querySelectorAll('path').length`), 20)

	e.do(chromedp.Evaluate[chromedp.Void](count))
	e.change(func(s *model.Snapshot) {
		o := object(s, "service/team-03/web-0080")
		o.Health, o.Why = model.HealthWarning, []string{"differs from the plan"}
	})
	e.until(`document.getElementById('announce').textContent === 'web-0080: warning'`)
	e.want(box("fold/services/team-03"), "error: team-03 25: 1 error, 2 warning")
	least("nodes touched by a patch", e.touched(), 25) // with the number of warnings and the cause

	for _, group := range []string{"fold/services/team-03", "fold/nodes/pool-05"} {
		e.click(box(group))
		e.until(`document.querySelector(` + quote(box(group)) + `).getAttribute('aria-expanded') === 'true'`)
	}
	least("elements with a namespace and a pool of 100 nodes opened", value[int](e.tab, elements), 2600)
	e.click(box("more/nodes"))
	e.until(`document.querySelectorAll('.column:nth-of-type(4) .box').length > 100`)
	// What is far down in a folded list is shown when something leads to it.
	e.do(chromedp.Evaluate[chromedp.Void](`location.hash = '#map/' + encodeURIComponent('node/node-0999')`))
	e.until(`document.querySelector("[data-id='node/node-0999']")?.getAttribute('aria-current') === 'true'`)
	for _, v := range []string{"nodes", "plan", "timeline"} {
		e.view(v)
	}
	least("elements with all views drawn", value[int](e.tab, elements), 8000)
	e.view("nodes")
	e.want("#nodes .more", "Show 100 more of 900")
	e.click("#nodes .more")
	e.until(`document.querySelectorAll('#nodes tbody tr').length === 200`)
}

// watch notes when the page has drawn what an event brought: since the navigation began, and since the event came.
const watch = `window.times = {};
const add = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, f) {
	return add.call(this, name, (event) => {
		const began = performance.now();
		f(event);
		requestAnimationFrame(() => setTimeout(() => { times[name] = [performance.now(), performance.now() - began] }));
	});
};`

// BenchmarkPage measures the first paint and a patch for docs/ui.md: the least of all runs, which other work on the machine
// disturbs least.
func BenchmarkPage(b *testing.B) {
	for _, size := range []int{20, 200, 1000} {
		b.Run(fmt.Sprintf("%dx%d", size, size), func(b *testing.B) {
			first, patch, elements := math.Inf(1), math.Inf(1), 0
			for b.Loop() {
				e := serve(b, desk, sample(size, size))
				call(e.tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
				e.do(chromedp.Navigate(e.url))
				e.until(`times.snapshot`)
				first = min(first, value[[]float64](e.tab, `times.snapshot`)[0])
				e.change(func(s *model.Snapshot) { object(s, "service/team-00/web-0003").Health = model.HealthError })
				e.until(`times.patch`)
				elements = value[int](e.tab, `document.querySelectorAll('*').length`)
				patch = min(patch, value[[]float64](e.tab, `times.patch`)[1])
			}
			b.ReportMetric(first, "ms/first-paint")
			b.ReportMetric(patch, "ms/patch")
			b.Logf("for docs/ui.md: | %d Services, %d nodes | %.2f s | %.0f ms | %d |", size, size, first/1000, patch, elements)
		})
	}
}
