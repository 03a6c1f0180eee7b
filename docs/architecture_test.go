// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
)

const module = "github.com/csccm/csccm/"

// goPackage is one folder with Go code that is not a test.
type goPackage struct {
	program bool
	imports []string // folders of this repository
}

// packages parses the imports of every package below the given folders, by folder.
func packages(t *testing.T, root string, folders ...string) map[string]goPackage {
	t.Helper()
	out := map[string]goPackage{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
				return nil
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return err
			}
			name := filepath.ToSlash(rel)
			out[name] = goPackage{parsed.Name.Name == "main", append(out[name].imports, ownImports(parsed.Imports)...)}
			return nil
		})
		require.NoError(t, err)
	}
	return out
}

func ownImports(specs []*ast.ImportSpec) []string {
	var out []string
	for _, s := range specs {
		if own, ok := strings.CutPrefix(strings.Trim(s.Path.Value, `"`), module); ok {
			out = append(out, own)
		}
	}
	return out
}

// TestArchitectureNamesEveryPackage: docs/architecture.md names every package, and no package that does not exist.
// Programs that only generate files are not named.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	root, _, byPath := read(t)
	named := map[string]bool{}
	for _, c := range byPath["docs/architecture.md"].Code {
		if c.Inline {
			named[c.Text] = true
		}
	}
	require.Greater(t, len(named), 40)
	all := packages(t, root, "cmd", "pkg", "installer", "charts", "docs")
	for name := range packages(t, root, "test") {
		if strings.Count(name, "/") == 1 {
			all[name] = goPackage{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if generator := all[name].program && !strings.HasPrefix(name, "cmd/"); !generator && !named[name] {
			t.Errorf("docs/architecture.md does not name `%s`", name)
		}
	}
	folder := regexp.MustCompile(`^(cmd|pkg|installer|charts|release|test|docs)/[a-z/-]+$`)
	for name := range named {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); folder.MatchString(name) && err != nil {
			t.Errorf("docs/architecture.md names `%s`, which does not exist", name)
		}
	}
}

var (
	drawnFolder = regexp.MustCompile(`(\w+)\[((?:cmd|pkg|installer|charts|release)[a-z/-]*)\]`)
	drawnArrow  = regexp.MustCompile(`^\s*(\w+)(?:\[[^\]]*\])? --> (\w+)`)
)

// TestArchitectureDiagram compares the arrows of the diagram with the imports of the packages that the programs are
// made of. A package belongs to the closest drawn folder. An arrow must be an import; an import must be an arrow, or
// follow from several. A package that is not drawn imports nothing of ours.
func TestArchitectureDiagram(t *testing.T) {
	t.Parallel()
	root, _, byPath := read(t)
	code := byPath["docs/architecture.md"].Code
	diagram := code[slices.IndexFunc(code, func(c pages.Code) bool { return c.Language == "mermaid" })].Text

	folderOf := map[string]string{} // by the name in the diagram
	for _, m := range drawnFolder.FindAllStringSubmatch(diagram, -1) {
		folderOf[m[1]] = m[2]
	}
	drawn := map[string][]string{}
	for line := range strings.Lines(diagram) {
		if m := drawnArrow.FindStringSubmatch(line); m != nil {
			from, to := folderOf[m[1]], folderOf[m[2]]
			require.True(t, from != "" && to != "", "an arrow between folders that the diagram does not name: %s", line)
			drawn[from] = append(drawn[from], to)
		}
	}
	require.Greater(t, len(drawn), 10)

	imported := drawnImports(t, packages(t, root, "cmd", "pkg", "installer", "charts", "release"), slices.Collect(maps.Values(folderOf)))
	for from, to := range drawn {
		for _, to := range to {
			if imported[from][to] == "" {
				t.Errorf("the diagram draws %s --> %s, but no package there imports the other", from, to)
			}
		}
	}
	for from, to := range imported {
		for to, example := range to {
			if !leadsTo(drawn, from, to, map[string]bool{}) {
				t.Errorf("the diagram lacks %s --> %s: %s", from, to, example)
			}
		}
	}
}

// drawnImports returns an example for each import between two drawn folders, of packages that a program is made of.
func drawnImports(t *testing.T, all map[string]goPackage, folders []string) map[string]map[string]string {
	t.Helper()
	ownerOf := func(name string) string {
		for ; name != "."; name = path.Dir(name) {
			if slices.Contains(folders, name) {
				return name
			}
		}
		return ""
	}
	out := map[string]map[string]string{}
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		from := ownerOf(name)
		if from == "" && len(all[name].imports) > 0 {
			t.Errorf("the diagram lacks %s, which imports %v", name, all[name].imports)
		}
		for _, to := range all[name].imports {
			if to := ownerOf(to); from != "" && to != "" && from != to {
				if out[from] == nil {
					out[from] = map[string]string{}
				}
				out[from][to] = name + " imports a package of it"
			}
			visit(to)
		}
	}
	for name, p := range all {
		if p.program && (path.Dir(name) == "cmd" || name == "release") {
			visit(name)
		}
	}
	return out
}

// leadsTo reports whether a chain of arrows leads from one folder to another.
func leadsTo(arrows map[string][]string, from, to string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(arrows[from], func(next string) bool { return next == to || leadsTo(arrows, next, to, seen) })
}

// TestHelmHasOneImporter: another major version of Helm concerns one file of the product and of the program that makes releases.
func TestHelmHasOneImporter(t *testing.T) {
	t.Parallel()
	root, _, _ := read(t)
	var importers []string
	for _, folder := range []string{"cmd", "pkg", "installer", "charts", "release", "docs"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil || !slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return strings.HasPrefix(i.Path.Value, `"helm.sh/`) }) {
				return err
			}
			rel, err := filepath.Rel(root, file)
			importers = append(importers, filepath.ToSlash(rel))
			return err
		}))
	}
	require.ElementsMatch(t, []string{"installer/kube/helm/sdk_helm3.go", "installer/kube/helm/helm4/sdk_helm4.go"}, importers)
}
