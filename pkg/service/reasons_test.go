// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service/reasons"
	"github.com/csccm/csccm/pkg/testenv/source"
)

// TestTableHasEveryReason checks that each constant of type Reason is in a table and is used. If the code writes a
// notice, its type must be that of the table. If the code refuses a Service, the table must say that the condition can
// have the reason.
func TestTableHasEveryReason(t *testing.T) {
	t.Parallel()
	warnings, conditions := map[string]bool{}, map[string]bool{}
	for _, r := range slices.Concat(reasons.Events, reasons.NodeEvents, reasons.Conditions) {
		for what, text := range map[string]string{"When": r.When, "Means": r.Means, "Remedy": r.Remedy} {
			require.NotEmpty(t, text, "%s: the row lacks %s", r.Reason, what)
		}
		warnings[string(r.Reason)] = r.Warning
		conditions[string(r.Reason)] = conditions[string(r.Reason)] || r.Condition
	}

	values, used, notices, refusals := map[string]string{}, map[string]int{}, map[string][]bool{}, map[string]bool{}
	for _, file := range source.Files(t, "../loadbalancer", "../node", ".") {
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
				switch called := strings.ToLower(name(n.Fun)); {
				case called == "refuse" && strings.HasPrefix(name(n.Args[0]), "Reason"):
					refusals[name(n.Args[0])] = true
				case called == "warning", called == "warn", called == "note":
					notices[name(n.Args[0])] = append(notices[name(n.Args[0])], called != "note")
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
		if slices.Contains(ofKubernetes, plan.Reason(value)) {
			assert.GreaterOrEqual(t, used[constant], 2, "%s is not used", constant)
			continue
		}
		warning, documented := warnings[value]
		assert.True(t, documented, "%s (%s) has no row", constant, value)
		assert.GreaterOrEqual(t, used[constant], 2, "%s is not used", constant)
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

// ofKubernetes are the reasons that Kubernetes documents.
var ofKubernetes = []plan.Reason{EnsuringLoadBalancer, EnsuredLoadBalancer, UpdatedLoadBalancer, DeletingLoadBalancer,
	DeletedLoadBalancer, SyncLoadBalancerFailed}

// name returns the last part of an identifier or a selector.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
