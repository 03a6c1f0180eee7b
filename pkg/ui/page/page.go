// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page is what a browser loads from `csccm ui` and from the simulator: one HTML page with its style and
// scripts, and the same content as one file without scripts.
package page

import (
	"embed"
	"io/fs"
)

// files has everything that a browser loads. files/vendor/vendor.json pins the third-party files.
//
//go:embed files/index.html files/app.css files/*.js files/vendor
var files embed.FS

// Files returns the files of the page; index.html is the page itself. They load nothing from other origins, and the
// HTML has no inline script or style.
func Files() fs.FS {
	out, err := fs.Sub(files, "files")
	if err != nil {
		panic(err) // The name is a constant and valid.
	}
	return out
}
