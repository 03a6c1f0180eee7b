// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import "github.com/prometheus/prometheus/promql/parser"

// query is what an expression of PromQL asks for.
type query struct {
	Expr, Error string
	// Grouping are the labels of by (...).
	Grouping  []string
	Selectors []selector
}

// selector is one metric with its conditions on labels.
type selector struct {
	Metric   string
	Matchers []matcher
}

type matcher struct{ Label, Op, Value string }

// readQuery has Prometheus' own parser read an expression.
func readQuery(text string) query {
	q := query{Expr: text}
	expr, err := parser.ParseExpr(text)
	if err != nil {
		q.Error = err.Error()
		return q
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			s := selector{Metric: n.Name}
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					s.Matchers = append(s.Matchers, matcher{m.Name, m.Type.String(), m.Value})
				}
			}
			q.Selectors = append(q.Selectors, s)
		case *parser.AggregateExpr:
			if !n.Without {
				q.Grouping = append(q.Grouping, n.Grouping...)
			}
		}
		return nil
	})
	return q
}
