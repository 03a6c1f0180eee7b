// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
)

var updateDocs = flag.Bool("update-docs", false, "write the tables of Events into the documentation")

// TestEventsOfTheDocs: docs/troubleshooting.md and docs/nodes.md list the controller's Events.
func TestEventsOfTheDocs(t *testing.T) {
	t.Parallel()
	for page, rows := range map[string][]Row{"troubleshooting.md": OnServices, "nodes.md": OnNodes} {
		var b strings.Builder
		b.WriteString("| reason | type | when |\n|---|---|---|\n")
		for i := range rows {
			r := &rows[i]
			fmt.Fprintf(&b, "| [`%s`](runbooks/%s.md) | %s | %s |\n", r.Reason, r.Reason, map[bool]string{false: "Normal", true: "Warning"}[r.Warning], r.When)
		}
		stale, err := pages.Refresh(filepath.Join("..", "..", "..", "docs", page), []pages.Part{{Name: "events", Want: b.String()}}, *updateDocs)
		require.NoError(t, err)
		require.Empty(t, stale, "go test ./pkg/provider/event -run Docs -update-docs")
	}
}

// TestTableHasEveryReason: each constant of type Reason is in a table and is used. Where the code writes a notice, its type
// is that of the table; where it refuses a Service, the table says that the condition has the reason.
func TestTableHasEveryReason(t *testing.T) {
	t.Parallel()
	warnings, conditions := map[string]bool{}, map[string]bool{}
	for _, r := range slices.Concat(OnServices, OnNodes, OnConditions) {
		for what, text := range map[string]string{"When": r.When, "Means": r.Means, "Remedy": r.Remedy} {
			require.NotEmpty(t, text, "%s: the row lacks %s", r.Reason, what)
		}
		warnings[string(r.Reason)] = r.Warning
		conditions[string(r.Reason)] = conditions[string(r.Reason)] || r.Condition
	}
	values, used, notices, refusals := map[string]string{}, map[string]int{}, map[string][]bool{}, map[string]bool{}
	for _, file := range goFiles(t, "../../loadbalancer", "..") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if strings.HasSuffix(name(n.Type), "Reason") && len(n.Values) == 1 {
					value, err := strconv.Unquote(n.Values[0].(*ast.BasicLit).Value)
					require.NoError(t, err)
					values[n.Names[0].Name] = value
				}
			case *ast.Ident:
				used[n.Name]++
			case *ast.CallExpr:
				if name(n.Fun) == "refuse" && strings.HasPrefix(name(n.Args[0]), "Reason") {
					refusals[name(n.Args[0])] = true
				}
			case *ast.CompositeLit:
				if strings.HasSuffix(name(n.Type), "RefusalError") && len(n.Elts) > 0 {
					first := n.Elts[0]
					if kv, ok := first.(*ast.KeyValueExpr); ok {
						first = kv.Value
					}
					refusals[name(first)] = true
				}
				if strings.HasSuffix(name(n.Type), "Notice") {
					fields := map[string]string{}
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							fields[name(kv.Key)] = name(kv.Value)
						}
					}
					notices[fields["Reason"]] = append(notices[fields["Reason"]], fields["Warning"] == "true")
				}
			}
			return true
		})
	}
	require.Greater(t, len(values), 40)
	emitted := 0
	for constant, value := range values {
		warning, documented := warnings[value]
		assert.True(t, documented, "%s (%s) has no row", constant, value)
		assert.GreaterOrEqual(t, used[constant], 3, "%s is not used: it has a declaration and a row only", constant)
		for _, w := range notices[constant] {
			assert.Equal(t, warning, w, "%s: the table says Warning is %t", constant, warning)
			emitted++
		}
	}
	require.Greater(t, emitted, 10)
	refused := 0
	for constant := range refusals {
		if value, ok := values[constant]; ok {
			assert.True(t, conditions[value], "%s refuses a Service: its row needs Condition", value)
			refused++
		}
	}
	require.Greater(t, refused, 15)
}

// name is the last part of an identifier or a selector.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func goFiles(t *testing.T, dirs ...string) []*ast.File {
	t.Helper()
	var out []*ast.File
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			out = append(out, f)
			return err
		}))
	}
	return out
}
