// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limit bounds a wait for a condition on a busy machine.
const limit = 1 * time.Minute

// browser is the package's browser; missing says why there is none.
var (
	browser context.Context
	missing error
)

func TestMain(m *testing.M) {
	var end func()
	browser, end, missing = start() //nolint:fatcontext // it is made once
	code := m.Run()
	end()
	os.Exit(code)
}

// start starts Debian's Chromium or a related browser; end ends it and removes its files.
func start() (ctx context.Context, end func(), err error) {
	temporary, err := os.MkdirTemp("", "csccm-browser")
	if err != nil {
		return nil, func() {}, err
	}

	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.Flag("lang", "en-GB"), chromedp.Env("TZ=UTC", "TMPDIR="+temporary))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own sandbox does not work for root.
	}

	allocator, free := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ = chromedp.NewContext(allocator)
	end = func() {
		_ = chromedp.Cancel(ctx)
		free()
		_ = os.RemoveAll(temporary)
	}

	if err = chromedp.Do(ctx); err != nil {
		err = fmt.Errorf("there is no browser: install Debian's package chromium: %w", err)
	}

	return ctx, end, err
}

// look is how a tab renders the page.
type look struct {
	width, height int64
	dark, calm    bool
}

var desk = look{width: 1440, height: 900}

// tab is one tab of the package's browser.
type tab struct {
	testing.TB
	ctx     context.Context
	console iter.Seq2[chromedp.ConsoleMessage, error]
	attacks bool // the test expects errors and violations of the page's policy
}

// newTab opens an empty tab. At the end of the test it checks that the page had no error and did not violate its
// policy.
func newTab(t testing.TB, l look) *tab {
	t.Helper()
	if missing != nil && os.Getenv("CSCCM_BROWSER") != "required" {
		t.Skip(missing)
	}

	require.NoError(t, missing)
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithNewWindow(true))
	t.Cleanup(end)
	ctx, end = context.WithTimeout(ctx, limit)
	t.Cleanup(end)
	tb := &tab{TB: t, ctx: ctx, console: chromedp.Console(ctx)}
	t.Cleanup(tb.sound)
	scheme, motion := "light", "no-preference"
	if l.dark {
		scheme = "dark"
	}

	if l.calm {
		motion = "reduce"
	}

	tb.do(chromedp.EmulateViewport(l.width, l.height))
	call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}})

	// Give each tab the focus, because tests of keys run in parallel.
	call(tb, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	call(tb, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: `window.violations = [];
document.addEventListener('securitypolicyviolation', (e) => violations.push(e.violatedDirective + ' ' + e.blockedURI));`})
	return tb
}

func call[P, R any](tb *tab, command cdp.Command[P, R], params P) R {
	tb.Helper()
	out, err := chromedp.Call(tb.ctx, command, params)
	require.NoError(tb, err)
	return out
}

// sound fails the test if the page had an error or violated its content security policy.
func (tb *tab) sound() {
	tb.Helper()
	if tb.Failed() || tb.attacks {
		return
	}
	assert.Empty(tb, value[[]string](tb, `violations`), "the page's policy refused it")
	// When this message has arrived, all earlier messages have arrived, too.
	tb.run(`console.log('the end of the test')`)
	for m, err := range tb.console {
		require.NoError(tb, err)
		if m.Text == "the end of the test" {
			return
		}
		assert.False(tb, m.IsException() || m.Type == "error", "error in the browser: %s", m)
	}
}

func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.Helper()
	require.NoError(tb, chromedp.Do(tb.ctx, actions...))
}

// value evaluates an expression, which may be a promise.
func value[T any](tb *tab, expression string) T {
	tb.Helper()
	out, err := chromedp.Run(tb.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(tb, err, expression)
	return out
}

// run evaluates an expression for its effect.
func (tb *tab) run(expression string) {
	tb.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](expression))
}

// until waits until an expression is true.
func (tb *tab) until(expression string) {
	tb.Helper()
	every := chromedp.WithPollingInterval(20 * time.Millisecond)
	_, err := chromedp.Run(tb.ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(0), every))
	require.NoError(tb, err, "waiting for %s", expression)
}

// click clicks the element of a selector.
func (tb *tab) click(selector string) {
	tb.Helper()
	tb.do(chromedp.ScrollIntoView(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// hover moves the mouse to the centre of the element of a selector.
func (tb *tab) hover(selector string) {
	tb.Helper()
	tb.do(chromedp.ScrollIntoView(chromedp.CSS(selector)))
	at := value[[]float64](tb, `(({x, y, width, height}) => [x + width / 2, y + height / 2])(document.querySelector(`+
		quote(selector)+`).getBoundingClientRect())`)
	tb.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
}

var keys = map[string]string{
	"ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
	"Enter": kb.Enter, "Escape": kb.Escape, "Tab": kb.Tab, "Home": kb.Home, "End": kb.End,
}

// press presses a key, such as "ArrowDown", or types a text.
func (tb *tab) press(names ...string) {
	tb.Helper()
	for _, name := range names {
		tb.do(chromedp.KeyEvent(cmp.Or(keys[name], name)))
	}
}

// slash presses the key / like a keyboard: the page decides whether the key is also typed.
func (tb *tab) slash() {
	tb.Helper()
	p := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Code: "Slash", Text: "/"}
	call(tb, input.DispatchKeyEvent, p)
	p.Type, p.Text = input.DispatchKeyEventTypeKeyUp, ""
	call(tb, input.DispatchKeyEvent, p)
}

// texts returns the visible texts of all elements that match a selector.
func (tb *tab) texts(selector string) []string {
	tb.Helper()
	return value[[]string](tb, `[...document.querySelectorAll(`+quote(selector)+
		`)].filter((e) => e.checkVisibility()).map((e) => e.innerText.replace(/\s+/g, ' ').trim())`)
}

func quote(s string) string {
	out, _ := json.Marshal(s) //nolint:errchkjson // a string
	return string(out)
}

// box returns the selector of the box of an object or a group on the map.
func box(id string) string { return "button[data-id=" + strings.ReplaceAll(quote(id), `\`, `\\`) + "]" }

// step is an action and what the page must show afterwards.
type step struct{ do, at, want string }

// focused is an expression for the element with the focus.
const focused = `(({dataset, id, href, textContent}) =>
	dataset.id || id || href?.slice(href.indexOf('#')) || dataset.focus || textContent)(document.activeElement)`

// play performs steps. An action is click, hover, view, choose, press or type with its argument, or an expression. The
// expectation is an expression that becomes true, the elements of a selector (their number after =, or their visible
// texts with | between them), or the element with the focus.
func (e *env) play(steps []step) {
	e.Helper()
	for _, s := range steps {
		verb, arg, _ := strings.Cut(s.do, " ")
		switch verb {
		case "":
		case "click":
			e.click(arg)
		case "hover":
			e.hover(arg)
		case "view":
			e.view(arg)
		case "choose":
			e.choose(arg)
		case "press":
			e.press(strings.Fields(arg)...)
		case "type":
			e.press(arg)
		default:
			e.run(s.do)
		}

		number, counts := strings.CutPrefix(s.want, "=")
		switch {
		case s.want == "" && s.at == "":
		case s.want == "":
			e.want(s.at)
		case s.at == "":
			e.until(s.want)
		case s.at == "focus":
			e.until(focused + " === " + quote(s.want))
		case counts:
			e.until("document.querySelectorAll(" + quote(s.at) + ").length === " + number)
		default:
			e.want(s.at, strings.Split(s.want, "|")...)
		}
	}
}

// want waits until the elements of a selector have exactly these visible texts.
func (tb *tab) want(selector string, want ...string) {
	tb.Helper()
	var got []string
	for end := time.Now().Add(limit / 2); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = tb.texts(selector); slices.Equal(got, want) {
			return
		}
	}
	tb.Errorf("%s shows\n  %s\nwant\n  %s", selector, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
}
