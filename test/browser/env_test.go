// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
)

// env is a page with its real server and a snapshot that the test changes.
type env struct {
	*tab
	url string

	mutex   sync.Mutex
	s       model.Snapshot
	changed chan struct{}
	acted   atomic.Int32
}

func (e *env) Snapshot(context.Context) (model.Snapshot, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.s, nil
}

func (e *env) Changed() <-chan struct{} { return e.changed }

// change changes the snapshot; the page receives the difference.
func (e *env) change(f func(*model.Snapshot)) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.s.Objects, e.s.Faults = slices.Clone(e.s.Objects), slices.Clone(e.s.Faults)
	f(&e.s)
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// object returns the object with an ID, for changes.
func object(s *model.Snapshot, id string) *model.Object {
	return &s.Objects[slices.IndexFunc(s.Objects, func(o model.Object) bool { return o.ID == id })]
}

func (e *env) SetFault(_ context.Context, name, _ string, _ bool) error {
	if name == "broken" {
		return server.ErrUnknown
	}
	return e.act()
}

func (e *env) Do(context.Context, string, string) error { return e.act() }
func (e *env) SetSpeed(context.Context, float64) error  { return e.act() }

func (e *env) act() error {
	e.acted.Add(1)
	return nil
}

// serve starts the server of a page without opening a tab.
func serve(t testing.TB, l look, s model.Snapshot) *env {
	t.Helper()
	e := &env{s: s, changed: make(chan struct{}, 1)}
	o := server.Options{Source: e, Files: page.Files()}
	if len(s.Faults) > 0 {
		o.Actions = e
	}
	e.url = listen(t, o)
	e.tab = newTab(t, l)
	return e
}

// listen serves a page until the end of the test, and returns its address.
func listen(t testing.TB, o server.Options) (url string) {
	t.Helper()
	srv, err := server.Listen(t.Context(), o)
	require.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() { end(); assert.NoError(t, <-done) })
	return srv.URL()
}

const live = `document.getElementById('connection')?.dataset.state === 'live'`

// show opens the page in a tab and waits for the first snapshot.
func show(t testing.TB, l look, s model.Snapshot) *env {
	t.Helper()
	e := serve(t, l, s)
	e.do(chromedp.Navigate(e.url))
	e.until(live)
	return e
}

// settle waits until the page has adapted to its new size and all animations have ended.
func (e *env) settle() {
	e.Helper()
	value[any](e.tab,
		`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))`)
	e.until(`document.getAnimations().length === 0`)
}

// choose opens the details of an object with its box or, on a narrow screen, its card.
func (e *env) choose(id string) {
	e.Helper()
	e.run(`location.hash = '#map/' + encodeURIComponent(` + quote(id) + `)`)
	e.until(`!document.getElementById('details').hidden`)
}

// script runs a file of testdata in the page. The test fails with what its function check returns.
func (e *env) script(name, args string) {
	e.Helper()
	text := "(async () => {"
	for _, file := range []string{"see.js", name} {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(e, err)
		text += string(content)
	}
	for _, problem := range value[[]string](e.tab, text+"\nreturn check("+args+") })()") {
		e.Error(problem)
	}
}

// views are the page's views, as in its URL.
var views = []string{"map", "checks", "plan", "timeline", "nodes", "faults"}

// view opens a view by its link.
func (e *env) view(name string) {
	e.Helper()
	e.click("nav a[href='#" + name + "']")
	e.until(`!document.getElementById(` + quote(name) + `).hidden`)
}
