// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/ui/model"
)

// screens are the screen sizes that the page supports.
var screens = map[string]look{"phone": {width: 400, height: 800}, "desk": desk, "wall": {width: 3840, height: 2160}}

// axe is Deque's accessibility checker from npm, in the version in vendor.json.
var axe = sync.OnceValues(func() (string, error) {
	content, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	pinned, unread := os.ReadFile(filepath.Join("testdata", "axe", "vendor.json"))
	if sum := sha256.Sum256(content); !strings.Contains(string(pinned), hex.EncodeToString(sum[:])) {
		unread = errors.Join(unread, errors.New("axe.min.js is not the file that vendor.json pins"))
	}
	return string(content), errors.Join(err, unread)
})

// accessible fails the test for every violation of WCAG 2.2 AA or of axe's best practices.
func accessible(tb *tab, where string) {
	tb.Helper()
	source, err := axe()
	require.NoError(tb, err)
	if !value[bool](tb, `'axe' in window`) {
		tb.run(source)
	}
	out := value[struct {
		Passed     int
		Violations []string
	}](tb, `axe.run(document, {resultTypes: ['violations']}).then((r) => ({
	Passed: r.passes.length,
	Violations: r.violations.map((v) => v.id + ' (' + v.impact + '): ' + v.help + v.nodes.map((n) => '\n  ' + n.target.join(' ') + ': ' +
		n.any.concat(n.all).map((c) => c.message).join('; ')).slice(0, 3).join('')),
}))`)
	if out.Passed < 10 || len(out.Violations) > 0 {
		tb.Errorf("%s: %d rules of axe passed, violated are\n%s", where, out.Passed, strings.Join(out.Violations, "\n"))
	}
}

// TestScreens audits every view on every screen. Only the map and tables scroll sideways, and each part is where it
// should be.
func TestScreens(t *testing.T) {
	t.Parallel()
	for name, l := range screens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.dark, l.calm = name == "wall", name == "wall"
			s := faulty(sample(70, 12))
			s.Title = "Cluster with-a-name-that-nobody-breaks-anywhere-because-it-has-no-blanks-in-it-at-all"
			e := show(t, l, s)
			check := func(what string) {
				t.Helper()
				if over := value[int](e.tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s is %d px wider than the screen", what, over)
				}
				accessible(e.tab, what)
			}

			for _, v := range views {
				e.view(v)
				check(v)
			}

			moves := value[string](e.tab, `getComputedStyle(document.querySelector('.column li')).transitionDuration`)
			require.Equal(t, l.calm, moves == "0s", "boxes move for %s", moves)
			e.view("map")
			e.choose("service/team-00/web-0007")
			check("the details")
			e.settle()
			e.script("structure.js", strconv.FormatBool(l.width <= 900))
		})
	}
}

// large is the state that TestRecordLarge recorded to the file in CSCCM_UI_LARGE.
const large = "1,000 x 1,000"

var moment = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)

// recorded returns a state of a live cluster that TestRecord of package e2e recorded, with times relative to now,
// because the page shows ages. The state "" is the healthy cluster. names are the names of all states.
func recorded(t testing.TB, state string) (s model.Snapshot, names []string) {
	t.Helper()
	file := filepath.Join("testdata", "recorded.json.gz")
	if state == large {
		file = os.Getenv("CSCCM_UI_LARGE")
	}

	packed, err := os.ReadFile(file)
	require.NoError(t, err)
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	var in struct {
		Healthy model.Snapshot
		States  []struct {
			Name  string
			Patch model.Patch
		}
	}

	require.NoError(t, json.NewDecoder(unpacked).Decode(&in))
	s = in.Healthy
	for _, next := range in.States {
		if state != "" && !slices.Contains(names, state) {
			s = s.Apply(next.Patch)
		}
		names = append(names, next.Name)
	}

	text, err := json.Marshal(s)
	require.NoError(t, err)
	age := time.Since(s.At)
	text = moment.ReplaceAllFunc(text, func(at []byte) []byte {
		then, _ := time.Parse(`"`+time.RFC3339Nano+`"`, string(at))
		return []byte(then.Add(age).Format(`"` + time.RFC3339Nano + `"`))
	})

	s = model.Snapshot{}
	require.NoError(t, json.Unmarshal(text, &s))
	return s, names
}

// TestStates shows each state of a live cluster on each screen: testdata/expect.js says what the page must show.
func TestStates(t *testing.T) {
	t.Parallel()
	_, states := recorded(t, "")
	for i, state := range append(states, "") {
		for size, l := range screens {
			l.dark, l.calm = (i+len(size))%2 == 0, true
			t.Run(cmp.Or(state, "healthy")+"/"+size, func(t *testing.T) {
				t.Parallel()
				s, _ := recorded(t, state)
				e := show(t, l, s)
				if size == "wall" {
					e.click("#map-wall")
				}

				e.settle()
				e.script("expect.js", quote(cmp.Or(state, "healthy"))+", "+quote(size))
				accessible(e.tab, state)
			})
		}
	}
}

// TestPictures writes the pictures of docs/ui.md: CSCCM_UI_DOCS=$PWD/../docs/ui go test ./browser -run Pictures. Other
// tests check their content by its structure, because pixels depend on fonts.
func TestPictures(t *testing.T) {
	docs := os.Getenv("CSCCM_UI_DOCS")
	if docs == "" {
		t.Skip("CSCCM_UI_DOCS is not set")
	}

	for name, shot := range map[string]struct {
		width, height   int64
		dark            bool
		state, view, id string
	}{
		"map":       {1280, 720, false, "exhausted", "map", ""},
		"chain":     {1280, 640, false, "VM gone", "map", "service/shop/api"},
		"outage":    {1280, 720, true, "CloudStack fails", "map", ""},
		"large":     {1280, 640, true, large, "map", ""},
		"checks":    {1280, 420, false, "no leader", "checks", ""},
		"timeline":  {1280, 520, true, "exhausted", "timeline", ""},
		"nodes":     {1280, 420, false, "VM gone", "nodes", ""},
		"phone":     {400, 700, false, "exhausted", "map", ""},
		"simulator": {1280, 720, false, "simulator", "faults", ""},
	} {
		if shot.state == large && os.Getenv("CSCCM_UI_LARGE") == "" {
			continue
		}

		t.Run(name, func(t *testing.T) {
			l := look{width: shot.width, height: shot.height, dark: shot.dark, calm: true}
			var e *env
			if shot.state == "simulator" {
				e = &showSimulator(t, l).env
			} else {
				s, _ := recorded(t, shot.state)
				e = show(t, l, s)
			}
			e.view(shot.view)
			if shot.id != "" {
				e.choose(shot.id)
			}
			e.settle()
			quality := int64(35)
			format := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality}
			picture := call(e.tab, page.CaptureScreenshot, format)
			require.NoError(t, os.WriteFile(filepath.Join(docs, name+".webp"), picture.Data, 0o644))
			require.Less(t, len(picture.Data), 60<<10)
		})
	}
}

// TestSmallThings: testdata/small.js checks for details that once made the page hard to use.
func TestSmallThings(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"desk", "phone"} {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			s := sample(20, 20)
			s.Views = []string{"checks", "timeline", "nodes"}
			s.Story = &model.Story{
				Title: "2. A Service",
				Text:  []string{"What to see."},
				Try:   []string{"kubectl get nodes"},
			}
			s.Story.Sides = []string{"team-00", "pool-00"}
			e := show(t, screens[size], s)
			e.script("small.js", quote(size))
			accessible(e.tab, size)
		})
	}
}

// TestLinesPassBetweenBoxes: a link that skips columns crosses no box.
func TestLinesPassBetweenBoxes(t *testing.T) {
	t.Parallel()
	s := sample(12, 6)
	for i := range 12 { // links from addresses straight to the network
		s.Links = append(s.Links, model.Link{From: fmt.Sprintf("address/a-%04d", i), To: "network/net-0"})
	}
	e := show(t, desk, s)
	e.settle()
	e.script("lines.js", "")
}
