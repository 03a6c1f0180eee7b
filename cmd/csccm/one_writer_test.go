// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/csccm/csccm/pkg/testenv/source"
)

// The only places that may name the process's own outputs: where they get their writer that escapes (package terminal),
// programs that write documentation, and the simulator, which is for tests.
var ownOutputs = []string{
	"cmd/csccm/internal/cli/globals.go", "cmd/cloudstack-ccm/main.go", "cmd/cloudstack-ccm/command.go",
	"cmd/internal/manual/", "cmd/cloudstack-sim/", "pkg/simulator/internal/policydoc/", "charts/internal/",
}

// No text goes to the terminal past the writer that escapes: not to os.Stdout or os.Stderr, and not by a function that
// does so without naming them. Control sequences of csccm's own go through terminal.Own.
func TestSecurityNothingIsPrintedPastTheWriter(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for path, file := range source.Files(t, "../../cmd", "../../installer", "../../pkg", "../../charts") {
		if strings.Contains(path, "testenv") {
			continue
		}
		name := strings.TrimPrefix(path, "../../")
		found := printsIn(file)
		at := slices.IndexFunc(ownOutputs, func(p string) bool { return strings.HasPrefix(name, p) })
		if at >= 0 && len(found) > 0 {
			used[ownOutputs[at]] = true
			continue
		}
		assert.Empty(t, found, name)
	}
	for _, p := range ownOutputs {
		assert.True(t, used[p], "%s needs no exception any more", p)
	}
}

// printsIn returns what a file has that goes past the writer.
func printsIn(f *ast.File) (found []string) {
	own := map[ast.Node]bool{} // arguments of terminal.Own
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Own" {
				for _, arg := range n.Args {
					ast.Inspect(arg, func(n ast.Node) bool { own[n] = true; return true })
				}
			}
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				found = append(found, id.Name)
			}
		case *ast.SelectorExpr:
			pkg, _ := n.X.(*ast.Ident)
			switch {
			case pkg == nil:
			case pkg.Name == "os" && (n.Sel.Name == "Stdout" || n.Sel.Name == "Stderr"), pkg.Name == "syscall" && (n.Sel.Name == "Stdout" || n.Sel.Name == "Stderr"),
				pkg.Name == "fmt" && strings.HasPrefix(n.Sel.Name, "Print"), pkg.Name == "log" && (strings.HasPrefix(n.Sel.Name, "Print") || strings.HasPrefix(n.Sel.Name, "Fatal") || strings.HasPrefix(n.Sel.Name, "Panic")):
				found = append(found, pkg.Name+"."+n.Sel.Name)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && !own[n] && (strings.Contains(n.Value, `\x1b`) || strings.Contains(n.Value, `\033`) || strings.Contains(n.Value, `\u001b`)) {
				found = append(found, n.Value)
			}
		}
		return true
	})
	return found
}
