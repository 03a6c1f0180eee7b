// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen writes the modules of the control planes, plane/k35, k36 and so on: one for each Kubernetes minor, from
// main.go.tmpl and the go.mod of the Kubernetes release. Run it with `go generate ./plane` in the test module.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

const (
	kubernetes = "k8s.io/kubernetes"
	staging    = "./staging/"
)

//go:embed main.go.tmpl
var controlPlane []byte

//go:embed node.go.tmpl
var node []byte

func main() {
	for _, minor := range plane.Minors() {
		if err := must.Catch(func() { write(minor) }); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "gen: Kubernetes %s: %v\n", minor, err)
			os.Exit(1)
		}
	}
}

// write writes the folder of one minor; the working directory is test/plane.
func write(minor plane.Minor) {
	dir := minor.Folder()
	must.OK(os.MkdirAll(filepath.Join(dir, "node"), 0o750))
	for name, content := range map[string][]byte{
		"go.mod":       planeMod(minor),
		"main.go":      controlPlane,
		"node/main.go": node,
	} {
		must.OK(os.WriteFile(filepath.Join(dir, name), content, 0o644)) // #nosec G306 -- sources
	}
	must.Get(program.Go(context.Background(), dir, "mod", "tidy"))
}

// planeMod returns the go.mod of a minor's module. It keeps the release's go and godebug lines and replaces the
// release's staging folders by the modules that are published from them. These determine all other versions, except
// that the newest minor has the product's newer ones: with them both use the same compiled packages.
func planeMod(minor plane.Minor) []byte {
	var published struct{ GoMod string }
	out := must.Get(program.Go(context.Background(), os.TempDir(), "mod", "download", "-json",
		kubernetes+"@"+minor.Release()))
	must.OK(json.Unmarshal([]byte(out), &published))
	theirs := must.Get(modfile.Parse("go.mod", must.Get(os.ReadFile(published.GoMod)), nil))
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, `// Made by test/plane/gen from the go.mod of %[1]s %[2]s: its go and godebug
// lines, and its staging replacements as published modules. Kubernetes is linked into
// this program alone, never into the product or its test binaries.
module github.com/csccm/csccm/test/plane/%[3]s

go %[4]s
`, kubernetes, minor.Release(), minor.Folder(), theirs.Go.Version)
	for _, d := range theirs.Godebug {
		_, _ = fmt.Fprintf(&b, "\ngodebug %s=%s\n", d.Key, d.Value)
	}

	_, _ = fmt.Fprintf(&b, "\nrequire (\n\t%s %s\n", kubernetes, minor.Release())
	if minor == plane.Newest {
		const product = "../../go.mod"
		for _, r := range must.Get(modfile.Parse(product, must.Get(os.ReadFile(product)), nil)).Require {
			_, _ = fmt.Fprintf(&b, "\t%s %s // indirect\n", r.Mod.Path, r.Mod.Version)
		}
	}
	b.WriteString(")\n")

	b.WriteString("\nreplace (\n")
	seen := map[string]bool{}
	for _, r := range theirs.Replace {
		if seen[r.Old.Path] || !strings.HasPrefix(r.New.Path, staging) {
			continue
		}
		seen[r.Old.Path] = true
		_, _ = fmt.Fprintf(&b, "\t%[1]s => %[1]s %[2]s\n", r.Old.Path, minor.Staging())
	}
	b.WriteString(")\n")
	return b.Bytes()
}
