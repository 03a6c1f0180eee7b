// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/csccm/csccm/pkg/ui/model"
)

// read are the sources of a sample, as csccm ui has them.
func read(s model.Snapshot) model.Snapshot {
	s.Sources = []model.Source{
		{Name: "Kubernetes", State: model.SourceOK, Answered: time.Now(), Kinds: []model.Kind{model.KindService, model.KindNode}},
		{Name: "CloudStack", State: model.SourceOK, Answered: time.Now(), Kinds: []model.Kind{model.KindAddress, model.KindRule, model.KindForward, model.KindVM, model.KindNetwork}},
	}
	s.Controller = &model.Controller{Ready: 2, Replicas: 2, Leader: "ccm-1_abc", Renewed: time.Now(), Duration: 15}
	s.Views = []string{"checks", "plan", "timeline", "nodes"}
	return s
}

// TestOutageIsSeen: a source that does not answer is named with the age of its last answer, and what came from it is hatched. So is
// a lease that nobody renews.
func TestOutageIsSeen(t *testing.T) {
	t.Parallel()
	e := show(t, desk, read(sample(3, 2)))
	source := func(i int, want string) {
		t.Helper()
		e.until(fmt.Sprintf(`document.querySelectorAll('#sources li')[%d]?.textContent.includes(%s)`, i, quote(want)))
	}
	source(0, "Kubernetes: answered")
	source(1, "CloudStack: answered")
	source(2, "2 of 2 ready, ccm-1 leads")
	e.change(func(s *model.Snapshot) {
		s.Sources = []model.Source{s.Sources[0], s.Sources[1]}
		s.Sources[1].State, s.Sources[1].Answered, s.Sources[1].Reason = model.SourceFailing, time.Now().Add(-5*time.Minute), "530"
		s.Controller = &model.Controller{Ready: 2, Replicas: 2, Leader: "ccm-1_abc", Renewed: time.Now().Add(-time.Minute), Duration: 15}
	})
	source(1, "CloudStack fails, last answer 5 min ago")
	source(2, "nobody leads")
	e.until(`document.querySelector(` + quote(box("rule/r-0001")) + `).classList.contains('stale')`)
	if value[bool](e.tab, `document.querySelector(`+quote(box("service/team-00/web-0001"))+`).classList.contains('stale')`) {
		t.Error("what Kubernetes answers is shown as old")
	}
	e.click(box("rule/r-0001"))
	e.until(`document.querySelector('#details .missing')?.textContent.includes('CloudStack does not answer')`)
}

// TestCauses: many Services with one cause are one line, which shows them with their chains.
func TestCauses(t *testing.T) {
	t.Parallel()
	s := read(sample(40, 2))
	for i := range s.Objects {
		if o := &s.Objects[i]; o.Kind == model.KindService && strings.HasSuffix(o.Name, "5") {
			o.Health, o.Why = model.HealthError, []string{"AddressLimit: the account has no more addresses"}
		}
	}
	e := show(t, desk, s)
	e.until(`[...document.querySelectorAll('.cause')].some((c) => c.textContent.includes('AddressLimit') && c.querySelector('button').textContent === '4 Services')`)
	e.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll('.cause')].find((c) => c.textContent.includes('AddressLimit')).querySelector('button').click()`))
	e.until(`document.querySelectorAll('.column:first-of-type .box').length === 4`)
	e.want(".column h3", "Services 4", "Addresses 4", "Rules and forwards 8", "Nodes 2", "VMs 2", "Networks 1")
	e.click("#map-all")
	e.until(`document.querySelectorAll('.column:first-of-type .box').length > 6`)
	// A number by its health is a filter, too.
	e.click("[data-health-filter=orphan]")
	e.until(`document.querySelectorAll('.box.h-orphan').length === 1 && document.querySelectorAll('.column:first-of-type .box').length === 1`)
	e.press("Escape")
	e.until(`document.querySelectorAll('.column:first-of-type .box').length > 6`)
}

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
			e.click(box(o.ID))
			e.until(`!document.getElementById('details').hidden`)
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

// TestSmallThings: what made the page harder to use than it need be.
func TestSmallThings(t *testing.T) {
	t.Parallel()
	t.Run("the skip link stays in the view", func(t *testing.T) {
		t.Parallel()
		e := show(t, desk, sample(3, 2))
		e.view("nodes")
		e.do(chromedp.Evaluate[chromedp.Void](`document.getElementById('skip').click()`))
		e.until(`document.activeElement.id === 'view' && location.hash === '#nodes' && !document.getElementById('nodes').hidden`)
	})
	t.Run("a search finds names, not words of messages", func(t *testing.T) {
		t.Parallel()
		e := show(t, desk, sample(20, 20))
		e.click("#map-search")
		e.press("differs")
		e.until(`document.getElementById('map-found').textContent.startsWith('0 of')`)
	})
	t.Run("nodes on a phone", func(t *testing.T) {
		t.Parallel()
		e := show(t, look{width: 400, height: 800}, sample(3, 3))
		e.view("nodes")
		if over := value[int](e.tab, `(() => { const f = document.querySelector('#nodes .table'); return f.scrollWidth - f.clientWidth })()`); over > 0 {
			t.Errorf("the nodes are %d px wider than the screen", over)
		}
	})
	t.Run("views that do not apply are hidden", func(t *testing.T) {
		t.Parallel()
		s := sample(3, 2)
		s.Views = []string{"timeline"}
		e := show(t, desk, s)
		e.want("nav a", "Map", "Time line")
	})
	t.Run("copying is seen", func(t *testing.T) {
		t.Parallel()
		e := show(t, desk, sample(3, 2))
		e.click(box("service/team-00/web-0001"))
		e.click("#details .command button")
		e.until(`/Copied|Select/.test(document.querySelector('#details .command button').textContent)`)
	})
	t.Run("checks lead to their objects", func(t *testing.T) {
		t.Parallel()
		e := show(t, desk, sample(3, 2))
		e.view("checks")
		e.click("#checks tbody td a")
		e.until(`document.querySelector('#details h2')?.textContent === 'node-0000'`)
	})
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
