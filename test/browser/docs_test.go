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
		look look
		size int
		view string
		id   string
	}{
		"map":      {look: look{width: 1280, height: 640, calm: true}, size: 20, view: "map", id: "service/team-00/web-0007"},
		"large":    {look: look{width: 1280, height: 640, dark: true, calm: true}, size: 1000, view: "map"},
		"checks":   {look: look{width: 1280, height: 420, calm: true}, size: 20, view: "checks"},
		"timeline": {look: look{width: 1280, height: 420, dark: true, calm: true}, size: 20, view: "timeline"},
		"nodes":    {look: look{width: 1280, height: 420, calm: true}, size: 20, view: "nodes"},
		"phone":    {look: narrow, size: 20, view: "map"},

		"simulator": {look: look{width: 1280, height: 640, calm: true}, view: "faults"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("..", "..", "docs", "ui", name+".webp")
			if docs != "" {
				file = filepath.Join(docs, name+".webp")
				var e *env
				if shot.size > 0 {
					e = show(t, shot.look, sample(shot.size, shot.size))
				} else {
					e = &showSimulator(t, shot.look).env
				}
				e.view(shot.view)
				if shot.id != "" {
					e.click(box(shot.id))
					e.until(`!document.getElementById('details').hidden`)
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
