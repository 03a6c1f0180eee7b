// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/page"
)

// foreign counts the elements that no file of the page has.
const foreign = `document.querySelectorAll('img, iframe, object, embed, body script, body style, form, a[href^="javascript:"]').length`

// TestHostileNames: texts from tenants are texts in every view, in the details, and in the exported file.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	e := show(t, desk, hostile())
	safe := func(where string) {
		t.Helper()
		if got := value[int](e.tab, foreign); got != 0 {
			t.Errorf("%s: %d elements made of data", where, got)
		}
		if value[bool](e.tab, `'hacked' in window`) {
			t.Errorf("%s: a script in the data ran", where)
		}
		if !strings.Contains(value[string](e.tab, `document.querySelector('main').innerText + document.querySelector('h1').innerText`), `<img src=x onerror=`) {
			t.Errorf("%s does not show the text", where)
		}
	}
	for _, v := range views {
		e.view(v)
		safe(v)
	}
	e.view("map")
	n := value[int](e.tab, `document.querySelectorAll('.box.object').length`)
	for i := range n {
		e.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelectorAll('.box.object')[%d].click()`, i)))
		e.until(`!document.getElementById('details').hidden`)
		safe("details")
		e.press("Escape")
	}
	// A search and an address of a view are texts, too.
	e.click("#map-search")
	e.press(`<img src=x onerror=window.hacked=1>`)
	e.do(chromedp.Evaluate[chromedp.Void](`location.hash = '#map/<img src=x onerror=window.hacked=1>%'; location.hash = '#__proto__/x'; location.hash = '#map/constructor'`))
	e.until(`document.getElementById('details').innerText.includes('gone')`)
	e.click("#details button")
	safe("after a search")
}

// TestExportedFile: the file shows everything without a script and within its own policy.
func TestExportedFile(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]model.Snapshot{"hostile": hostile(), "large": sample(60, 40)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "map.html")
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := page.Export(out, s); err != nil {
				t.Fatal(err)
			}
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			tb := newTab(t, look{width: 400, height: 800})
			tb.do(chromedp.Navigate("file://" + file))
			if got := value[int](tb, foreign); got != 0 {
				t.Errorf("%d elements made of data", got)
			}
			if got := value[int](tb, `document.documentElement.scrollWidth - innerWidth`); got > 0 {
				t.Errorf("the file is %d px wider than the screen", got)
			}
			if got := value[int](tb, `document.querySelectorAll('details').length`); got != len(s.Objects) {
				t.Errorf("%d objects are in the file, want %d", got, len(s.Objects))
			}
			if got := value[string](tb, `getComputedStyle(document.querySelector('.b')).fontWeight`); got != "600" {
				t.Error("the policy refused the file's own style")
			}
			accessible(tb, "export of "+name)
		})
	}
}

// attack is a page of another origin that tries what it can with the address of ours.
var attack = template.Must(template.ParseFiles(filepath.Join("testdata", "attack.html")))

// TestHostilePage: a page of another origin in the same browser, with the session's cookie there, reads and changes nothing.
func TestHostilePage(t *testing.T) {
	t.Parallel()
	e := show(t, desk, faulty(sample(3, 2)))
	e.attacks = true
	e.view("faults") // what an action of the page itself could not do is said there
	e.click("#faults li:nth-child(1) button")
	e.until(`document.querySelector('#faults [role=alert]').textContent === 'Broken on: not available here'`)
	own := value[string](e.tab, `location.origin + '/'`)
	if strings.Contains(value[string](e.tab, `location.href`), "token") {
		t.Error("the token is still in the address")
	}
	if cookie := value[string](e.tab, `document.cookie`); cookie != "" {
		t.Errorf("scripts can read the cookie %s", cookie)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if err := attack.Execute(w, own); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	// By another name it is another site; by the same one the cookie is sent, which ignores ports.
	for _, from := range []string{srv.URL, strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)} {
		e.do(chromedp.Navigate(from))
		for name, got := range value[map[string]string](e.tab, `all`) {
			if got != "refused" && got != "opaque" {
				t.Errorf("%s from %s: %s", name, from, got)
			}
		}
	}
	if got := e.actions(); len(got) != 0 {
		t.Errorf("another page did %q", got)
	}
	// The page itself still works in this browser; the token does not in another.
	e.do(chromedp.Navigate(own))
	e.until(live)
	other := newTab(t, desk)
	other.attacks = true
	other.do(chromedp.Navigate(e.url))
	if text := value[string](other, `document.body.innerText`); !strings.Contains(text, "Forbidden") {
		t.Errorf("the token opens the page a second time: %s", text)
	}
}
