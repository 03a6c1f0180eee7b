// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
)

// largest is how large a picture of docs/ui.md may be.
const largest = 60 << 10

// TestPictures draws the pictures of docs/ui.md: CSCCM_UI_DOCS=$PWD/../docs/ui go test ./browser -run 'Pictures|Accessibility'.
// Without the variable it looks at the pictures that are there. What is on them is compared by the other tests, by its
// structure: pixels differ with fonts.
func TestPictures(t *testing.T) {
	t.Parallel()
	narrow := look{width: 400, height: 700, calm: true}
	for name, shot := range map[string]struct {
		look            look
		state, view, id string
	}{
		"map":      {look{width: 1280, height: 720, calm: true}, "exhausted", "map", ""},
		"chain":    {look{width: 1280, height: 640, calm: true}, "VM gone", "map", "service/shop/api"},
		"outage":   {look{width: 1280, height: 720, dark: true, calm: true}, "CloudStack fails", "map", ""},
		"large":    {look{width: 1280, height: 640, dark: true, calm: true}, large, "map", ""},
		"checks":   {look{width: 1280, height: 420, calm: true}, "no leader", "checks", ""},
		"timeline": {look{width: 1280, height: 520, dark: true, calm: true}, "exhausted", "timeline", ""},
		"nodes":    {look{width: 1280, height: 420, calm: true}, "VM gone", "nodes", ""},
		"phone":    {narrow, "exhausted", "map", ""},

		"simulator": {look{width: 1280, height: 720, calm: true}, "simulator", "faults", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("..", "..", "docs", "ui", name+".webp")
			if docs != "" && (shot.state != large || os.Getenv("CSCCM_UI_LARGE") != "") {
				file = filepath.Join(docs, name+".webp")
				var e *env
				switch shot.state {
				case "simulator":
					e = &showSimulator(t, shot.look).env
				default:
					s, _ := recorded(t, shot.state)
					e = show(t, shot.look, s)
				}
				e.view(shot.view)
				if shot.id != "" {
					e.choose(shot.id)
				}
				e.settle()
				quality := int64(35)
				picture := call(e.tab, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
				if err := os.WriteFile(file, picture.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(content) > largest || !bytes.HasPrefix(content, []byte("RIFF")) || len(content) < 2<<10 {
				t.Errorf("%s has %d bytes, want a picture of at most %d", file, len(content), largest)
			}
		})
	}
}
