// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/page"
)

// foreign counts elements that are in no file of the page.
const foreign = `document.querySelectorAll('img, iframe, object, embed, body script, body style, form, a[href^="javascript:"]').length`

// TestHostileNames: texts from tenants remain texts in every view, in the details and in the exported file.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	e := show(t, desk, hostile())
	safe := func(where string) {
		t.Helper()
		assert.Zero(t, value[int](e.tab, foreign), "elements made of data: %s", where)
		assert.False(t, value[bool](e.tab, `'hacked' in window`), "a script in the data ran: %s", where)
		text := value[string](e.tab,
			`document.querySelector('main').innerText + document.querySelector('h1').innerText`)
		assert.Contains(t, text, `<img src=x onerror=`, where)
	}

	for _, v := range views {
		e.view(v)
		safe(v)
	}

	e.view("map")
	n := value[int](e.tab, `document.querySelectorAll('.box.object').length`)
	for i := range n {
		e.run(fmt.Sprintf(`document.querySelectorAll('.box.object')[%d].click()`, i))
		e.until(`!document.getElementById('details').hidden`)
		safe("details")
		e.press("Escape")
	}

	// A search and the name of a view in the URL are texts, too.
	e.click("#map-search")
	e.press(`<img src=x onerror=window.hacked=1>`)
	e.run(`location.hash = '#map/<img src=x onerror=window.hacked=1>%'; location.hash = '#__proto__/x'; location.hash = '#map/constructor'`)
	e.until(`document.getElementById('details').innerText.includes('gone')`)
	e.click("#details button")
	safe("after a search")
}

// TestExportedFile: the file shows everything without scripts and without violating its own policy.
func TestExportedFile(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]model.Snapshot{"hostile": hostile(), "large": sample(60, 40)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "map.html")
			var out bytes.Buffer
			require.NoError(t, page.Export(&out, s))
			require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
			tb := newTab(t, look{width: 400, height: 800})
			tb.do(chromedp.Navigate("file://" + file))
			assert.Zero(t, value[int](tb, foreign), "elements made of data")
			assert.LessOrEqual(t, value[int](tb, `document.documentElement.scrollWidth - innerWidth`), 0,
				"it is too wide")
			assert.Len(t, s.Objects, value[int](tb, `document.querySelectorAll('details').length`))
			weight := value[string](tb, `getComputedStyle(document.querySelector('.b')).fontWeight`)
			assert.Equal(t, "600", weight, "the policy refused the file's own style")
			accessible(tb, "export of "+name)
		})
	}
}

// attack is a page of another origin that attacks our page by its URL.
var attack = template.Must(template.ParseFiles(filepath.Join("testdata", "attack.html")))

// TestHostilePage: another origin's page in the same browser, which has the session's cookie, can neither read nor
// change anything.
func TestHostilePage(t *testing.T) {
	t.Parallel()
	e := show(t, desk, faulty(sample(3, 2)))
	e.attacks = true
	e.view("faults") // this view shows why an action of the page itself failed
	e.click("#faults li:nth-child(1) button")
	e.until(`document.querySelector('#faults [role=alert]').textContent === 'Broken on: not available here'`)
	own := value[string](e.tab, `location.origin + location.pathname`)
	assert.NotContains(t, value[string](e.tab, `location.href`), "token", "it is still in the address")
	assert.Empty(t, value[string](e.tab, `document.cookie`), "scripts can read it")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		assert.NoError(t, attack.Execute(w, own))
	}))

	t.Cleanup(srv.Close)

	// A page with another host name is another site. With the same host name, the browser would send the cookie if the
	// path matched, because cookies ignore ports.
	for _, from := range []string{srv.URL, strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)} {
		e.do(chromedp.Navigate(from))
		for name, got := range value[map[string]string](e.tab, `all`) {
			assert.Contains(t, []string{"refused", "opaque"}, got, "%s from %s", name, from)
		}
	}

	assert.Zero(t, e.acted.Load(), "another page did something")

	// The page itself still works in this browser; the token does not in another.
	e.do(chromedp.Navigate(own))
	e.until(live)
	other := newTab(t, desk)
	other.attacks = true
	other.do(chromedp.Navigate(e.url))
	assert.Contains(t, value[string](other, `document.body.innerText`), "Forbidden",
		"the token opens the page a second time")
}
