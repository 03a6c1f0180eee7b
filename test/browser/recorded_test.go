// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/csccm/csccm/pkg/ui/model"
)

// large is the state of what TestRecordLarge has recorded, in the file that CSCCM_UI_LARGE names.
const large = "1,000 x 1,000"

var moment = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)

// recorded is a state of a live cluster, as TestRecord of package e2e has recorded it, moved to the present: ages are shown. Without a
// state it is that of the healthy cluster; names are those of all states.
func recorded(t testing.TB, state string) (s model.Snapshot, names []string) {
	t.Helper()
	file := filepath.Join("testdata", "recorded.json.gz")
	if state == large {
		file = os.Getenv("CSCCM_UI_LARGE")
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Healthy model.Snapshot
		States  []struct {
			Name  string
			Patch model.Patch
		}
	}
	if err := json.NewDecoder(unpacked).Decode(&in); err != nil {
		t.Fatal(err)
	}
	s = in.Healthy
	for _, next := range in.States {
		if state != "" && !slices.Contains(names, state) {
			s = s.Apply(next.Patch)
		}
		names = append(names, next.Name)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	age := time.Since(s.At)
	text = moment.ReplaceAllFunc(text, func(at []byte) []byte {
		then, _ := time.Parse(`"`+time.RFC3339Nano+`"`, string(at))
		return []byte(then.Add(age).Format(`"` + time.RFC3339Nano + `"`))
	})
	s = model.Snapshot{}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s, names
}

// TestStates looks at each state of a live cluster on each screen: testdata/expect.js says what must be seen. CSCCM_UI_SHOTS is a folder
// for pictures of all of them, dark and light.
func TestStates(t *testing.T) {
	t.Parallel()
	shots := os.Getenv("CSCCM_UI_SHOTS")
	_, states := recorded(t, "")
	for i, state := range append(states, "") {
		for j, size := range []string{"phone", "desk", "wall"} {
			for k, scheme := range []string{"light", "dark"} {
				if shots == "" && (i+j+k)%2 == 0 {
					continue // each state is seen once on each screen
				}
				l := map[string]look{"phone": {width: 400, height: 800}, "desk": desk, "wall": {width: 3840, height: 2160}}[size]
				l.dark, l.calm = scheme == "dark", true
				t.Run(cmp.Or(state, "healthy")+"/"+size+"/"+scheme, func(t *testing.T) {
					t.Parallel()
					s, _ := recorded(t, state)
					e := show(t, l, s)
					if size == "wall" {
						e.click("#map-wall")
					}
					e.settle()
					for _, problem := range e.script("expect.js", quote(cmp.Or(state, "healthy"))+", "+quote(size)) {
						t.Error(problem)
					}
					if shots != "" {
						picture := call(e.tab, page.CaptureScreenshot, page.CaptureScreenshotParams{})
						if err := os.WriteFile(filepath.Join(shots, cmp.Or(state, "healthy")+"-"+size+"-"+scheme+".png"), picture.Data, 0o600); err != nil {
							t.Fatal(err)
						}
					}
					accessible(e.tab, state)
				})
			}
		}
	}
}
