// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/page"
)

// count is a script that records the changed elements until the expression collect.
const count = `window.touched = new Set();
new MutationObserver((records) => { for (const r of records) { touched.add(r.target); for (const n of r.addedNodes) touched.add(n) } })
	.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})`

// TestPatches: the page redraws only what changed, and announces it to screen readers.
func TestPatches(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(20, 20))
	const id = "service/team-00/web-0003"
	e.choose(id)
	e.settle()
	e.run(count)
	e.change(func(s *model.Snapshot) {
		o := object(s, id)
		o.Health, o.Why, o.Label = model.HealthError, []string{"the address is gone"}, "no address"
	})
	e.play([]step{
		{"", "#details .why li", "the address is gone"},
		{"", box(id), "error: web-0003 the address is gone"},
		{"", "", `document.getElementById('announce').textContent === 'web-0003: error'`},
	})
	e.change(func(s *model.Snapshot) { object(s, "rule/r-0003").Why = []string{"planned: delete rule of port 443"} })
	e.until(`getComputedStyle(document.querySelector("[data-id='rule/r-0003']")).borderTopStyle === 'dashed'`)
	got := value[int](e.tab, `[...touched].filter((n) => document.getElementById('map-area').contains(n)).length`)
	assert.LessOrEqual(t, got, 8, "nodes of the map changed for one object")

	e.change(func(s *model.Snapshot) { // removed, new, and another heading
		s.Title = "Cluster renamed"
		object(s, "network/net-0").ID = "network/net-1"
		for i := range s.Links {
			if s.Links[i].To == "network/net-0" {
				s.Links = append([]model.Link(nil), s.Links...)
				s.Links[i].To = "network/net-1"
			}
		}
		s.Checks = nil
		s.Missing = []model.Missing{{Part: "checks", Reason: "doctor does not answer", Remedy: "Run csccm doctor."}}
	})
	e.until(`document.title === 'Cluster renamed'`)
	e.until(`!document.querySelector("[data-id='network/net-0']") && document.querySelector("[data-id='network/net-1']")`)
	e.want("nav a", "Map", "Checks", "Plan2", "Time line", "Nodes2")
	e.play([]step{
		{"view checks", "#checks .missing", "No checks: doctor does not answer Run csccm doctor."},
		{"", "#checks table", ""},
		{"view map", "", ""},
		{"click " + box(id), "", ""},
	})
	e.change(func(s *model.Snapshot) { object(s, id).ID = "service/team-00/other" })
	e.until(`document.getElementById('details').textContent.includes('This object is gone.')`)
}

// TestConnectionLost: the page says that its content is outdated, and reconnects by itself.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	tb := newTab(t, desk)
	tb.attacks = true // the browser reports refused connections on its console
	var mode atomic.Int32
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page.Files()))
	mux.HandleFunc("GET /api/events", func(w http.ResponseWriter, r *http.Request) {
		s := sample(3, 2)
		switch mode.Load() {
		case 1:
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		case 2:
			s.Title = "Back"
		case 3:
			s.SchemaVersion = 99
		}
		data, err := json.Marshal(s)
		assert.NoError(t, err)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "retry: 100\nevent: snapshot\ndata: %s\n\n", data)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})

	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	tb.do(chromedp.Navigate(srv.URL))
	tb.until(live)
	status := func(state, text string) {
		t.Helper()
		tb.until(`(({dataset, textContent}) => dataset.state === ` + quote(state) + ` && textContent.includes(` +
			quote(text) +
			`))(document.getElementById('connection'))`)
	}

	mode.Store(1)
	srv.CloseClientConnections()
	status("lost", "Connection lost. What is shown is old.")
	mode.Store(2)
	status("live", "Live")
	tb.until(`document.title === 'Back'`)
	mode.Store(3)
	srv.CloseClientConnections()
	status("failed", "the server sends version 99 of the data, this page reads version 1: reload the page")
}

// TestFocusSurvivesPatches: a box keeps the focus when other boxes are inserted before it. When it disappears, the
// focus stays on the map.
func TestFocusSurvivesPatches(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(3, 2))
	const id = "rule/r-0001"
	e.do(chromedp.Focus(chromedp.CSS(box(id))))
	e.change(func(s *model.Snapshot) { // reverses their order
		for i := range 3 {
			object(s, fmt.Sprintf("service/team-00/web-%04d", i)).Name = fmt.Sprintf("web-%d", 9-i)
		}
	})
	e.play([]step{{"", "", `document.querySelector('.column .name').textContent === 'web-7'`}, {"", "focus", id}})
	e.change(func(s *model.Snapshot) { object(s, id).ID = "rule/other" })
	e.until(`document.querySelector("[data-id='rule/other']") && document.activeElement.matches('.box')`)
}

// TestDetailsAreReadable: a long name of an annotation takes no space from its value, and annotations are collapsed.
// After a patch the panel keeps its scroll position and stays expanded.
func TestDetailsAreReadable(t *testing.T) {
	t.Parallel()
	const id = "service/team-00/web-0001"
	for name, l := range map[string]look{"phone": screens["phone"], "desk": desk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sample(3, 2)
			o := object(&s, id)
			long := "Annotation service.beta.kubernetes.io/cloudstack-load-balancer-address-" +
				strings.Repeat("long", 10)
			o.Facts = append(o.Facts, model.Fact{Name: long, Value: "203.0.113.200"})
			e := show(t, l, s)
			e.play([]step{
				{"choose " + id, "#details details[open]", "=0"},
				{"click #details summary", "#details details[open]", "=1"},
				{"", "",
					`[...document.querySelectorAll('#details dd')].every((d) => d.getBoundingClientRect().width >= 200)`},
				{
					`document.getElementById('details').scrollTop = 60; window.read = document.getElementById('details').scrollTop`,
					"",
					"",
				},
			})

			e.change(func(s *model.Snapshot) { object(s, id).Why = []string{"something new"} })
			e.play([]step{
				{"", "#details .why li", "something new"},
				{"", "#details details[open]", "=1"},
				{"", "", `document.getElementById('details').scrollTop === read`},
			})
		})
	}
}

// TestOpenedElsewhere: the map works after the page was reloaded in another view, and its filters are kept.
func TestOpenedElsewhere(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(20, 20))
	e.play([]step{
		{"click #map-search", "", ""},
		{"type web-0003", ".column:first-of-type .box", "=1"},
		{"view nodes", "", ""},
	})
	e.do(chromedp.Reload())
	e.until(live)
	e.play([]step{
		{"choose node/node-0000", "[data-id='node/node-0000'][aria-current=true]", "=1"},
		{"location.hash = '#map'", "", `document.getElementById('map-search').value === '' ||
			document.querySelectorAll('.column:first-of-type .box').length === 1`},
	})
}
