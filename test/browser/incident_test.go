// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/csccm/csccm/pkg/ui/model"
)

// TestDetailsAreReadable: a long name of an annotation takes no room from its value, and annotations are closed.
func TestDetailsAreReadable(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]look{"phone": {width: 400, height: 800}, "desk": desk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sample(3, 2)
			o := object(&s, "service/team-00/web-0001")
			o.Facts = append(o.Facts, model.Fact{Name: "Annotation service.beta.kubernetes.io/cloudstack-load-balancer-address-" + strings.Repeat("long", 10), Value: "203.0.113.200"})
			e := show(t, l, s)
			e.choose(o.ID)
			if value[bool](e.tab, `document.querySelector('#details details').open`) {
				t.Error("annotations are open")
			}
			e.click("#details summary")
			e.until(`document.querySelector('#details details').open`)
			if width := value[float64](e.tab, `Math.min(...[...document.querySelectorAll('#details dd')].map((d) => d.getBoundingClientRect().width))`); width < 200 {
				t.Errorf("a value has %v px", width)
			}
			// A patch leaves the panel where it was read, and open.
			e.do(chromedp.Evaluate[chromedp.Void](`document.getElementById('details').scrollTop = 60`))
			top := value[float64](e.tab, `document.getElementById('details').scrollTop`)
			e.change(func(s *model.Snapshot) { object(s, o.ID).Why = []string{"something new"} })
			e.until(`document.querySelector('#details .why li')?.textContent === 'something new'`)
			if got := value[float64](e.tab, `document.getElementById('details').scrollTop`); got != top || !value[bool](e.tab, `document.querySelector('#details details').open`) {
				t.Errorf("the details jumped from %v to %v", top, got)
			}
		})
	}
}

// TestOpenedElsewhere: the map works for a page that was opened or reloaded at another view; filters survive a reload.
func TestOpenedElsewhere(t *testing.T) {
	t.Parallel()
	for _, view := range []string{"nodes", "checks"} {
		t.Run(view, func(t *testing.T) {
			t.Parallel()
			e := serve(t, desk, sample(20, 20))
			e.do(chromedp.Navigate(e.url))
			e.until(live)
			e.click("#map-search")
			e.press("web-0003")
			e.until(`document.querySelectorAll('.column:first-of-type .box').length === 1`)
			e.view(view)
			e.do(chromedp.Reload())
			e.until(live)
			e.do(chromedp.Evaluate[chromedp.Void](`location.hash = '#map/' + encodeURIComponent('node/node-0000')`))
			e.until(`document.querySelector("[data-id='node/node-0000']")?.getAttribute('aria-current') === 'true'`)
			e.do(chromedp.Evaluate[chromedp.Void](`location.hash = '#map'`))
			e.until(`document.getElementById('map-search').value === '' || document.querySelectorAll('.column:first-of-type .box').length === 1`)
		})
	}
}

// TestSmallThings: what made the page harder to use than it need be is in testdata/small.js.
func TestSmallThings(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]look{"desk": desk, "phone": {width: 400, height: 800}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sample(20, 20)
			s.Views = []string{"checks", "timeline", "nodes"}
			s.Story = &model.Story{Title: "2. A Service", Text: []string{"What to see."}, Try: []string{"kubectl get nodes"}, Sides: []string{"team-00", "pool-00"}}
			e := show(t, l, s)
			for _, problem := range e.script("small.js", quote(name)) {
				t.Error(problem)
			}
			accessible(e.tab, name)
		})
	}
}

// TestLinesPassBetweenBoxes: a link that skips columns touches no box on its way.
func TestLinesPassBetweenBoxes(t *testing.T) {
	t.Parallel()
	s := sample(12, 6)
	for i := range 12 { // from addresses straight to the network
		s.Links = append(s.Links, model.Link{From: fmt.Sprintf("address/a-%04d", i), To: "network/net-0"})
	}
	e := show(t, desk, s)
	e.settle()
	if got := value[[]string](e.tab, `(() => {
	const canvas = document.getElementById('map-canvas').getBoundingClientRect();
	const boxes = [...document.querySelectorAll('.box')].map((b) => ({id: b.dataset.id, r: b.getBoundingClientRect()}));
	const wrong = new Set();
	for (const p of document.querySelectorAll('#map-canvas g path')) {
		for (const piece of p.getAttribute('d').split(/(?=M)/)) {
			for (const m of piece.matchAll(/L([\d.]+),([\d.]+)/g)) { // straight where it passes a column
				const [x, y] = [canvas.left + Number(m[1]) - 5, canvas.top + Number(m[2])];
				for (const b of boxes) if (x > b.r.left && x < b.r.right && y > b.r.top && y < b.r.bottom) wrong.add(b.id);
			}
		}
	}
	return [...wrong];
})()`); len(got) > 0 {
		t.Errorf("lines pass behind %q", got)
	}
}
