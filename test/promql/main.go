// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command promql reads PromQL expressions, a JSON list of texts, from stdin and prints which metrics each of them asks for,
// with its conditions on labels and those that it groups by.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// Selector is one metric that an expression asks for.
type Selector struct {
	Metric   string    `json:"metric"`
	Matchers []Matcher `json:"matchers,omitempty"`
}

// Matcher is a condition on a label.
type Matcher struct {
	Label string `json:"label"`
	Op    string `json:"op"`
	Value string `json:"value"`
}

// Query is what one expression needs.
type Query struct {
	Expr      string     `json:"expr"`
	Error     string     `json:"error,omitempty"`
	Selectors []Selector `json:"selectors,omitempty"`
	Grouping  []string   `json:"grouping,omitempty"` // labels of by (...)
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var expressions []string
	if err := json.NewDecoder(in).Decode(&expressions); err != nil {
		return err
	}
	queries := make([]Query, 0, len(expressions))
	for _, e := range expressions {
		queries = append(queries, read(e))
	}
	return json.NewEncoder(out).Encode(queries)
}

func read(text string) Query {
	q := Query{Expr: text}
	expr, err := parser.ParseExpr(text)
	if err != nil {
		q.Error = err.Error()
		return q
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			s := Selector{Metric: n.Name}
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					s.Matchers = append(s.Matchers, Matcher{m.Name, m.Type.String(), m.Value})
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
	slices.Sort(q.Grouping)
	q.Grouping = slices.Compact(q.Grouping)
	return q
}
