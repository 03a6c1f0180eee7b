// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"regexp"
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

// past matches what bypasses the writer: functions, and the escape character in a literal.
var past = regexp.MustCompile(`^((os|syscall)\.Std(out|err)|(fmt|log)\.Print.*|log\.(Fatal|Panic).*|println?)$|\\x1b|\\033|\\u001b`)

// No text bypasses the escaping writer on its way to the terminal: not through os.Stdout or os.Stderr, and not through
// functions that use them implicitly. csccm's own control sequences go through terminal.Own.
func TestSecurityNothingIsPrintedPastTheWriter(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for path, file := range source.Files(t, "../../cmd", "../../installer", "../../pkg", "../../charts") {
		if strings.Contains(path, "testenv") {
			continue
		}

		name := strings.TrimPrefix(path, "../../")
		var found []string
		ast.Inspect(file, func(n ast.Node) bool {
			text := ""
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Own" {
					return false
				}
				if id, ok := n.Fun.(*ast.Ident); ok {
					text = id.Name
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok {
					text = pkg.Name + "." + n.Sel.Name
				}
			case *ast.BasicLit:
				text = n.Value
			}

			if past.MatchString(text) {
				found = append(found, text)
			}

			return true
		})

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

// Only the engine asks for confirmations, because it names the cluster in them.
func TestOnlyTheEngineAsksForConsent(t *testing.T) {
	t.Parallel()
	var asked []string
	for path, file := range source.Files(t, ".", "../../installer") {
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == "YesNo" && !strings.Contains(path, "/prompt/") {
				asked = append(asked, path)
			}
			return true
		})
	}
	assert.Equal(t, []string{"../../installer/engine/operation.go"}, asked)
}
