// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql/parser"
)

// targetLabels are the labels that Prometheus adds.
var targetLabels = []string{"job", "instance", "namespace", "pod"}

// problems parses a query with Prometheus' own parser, compares it with the served metrics, and records the metrics
// that it uses.
func problems(text string, served families, used map[string]bool) (out []string) {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}

	labels, grouping := slices.Clone(targetLabels), []string(nil)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if n, ok := node.(*parser.AggregateExpr); ok && !n.Without {
			grouping = append(grouping, n.Grouping...)
		}

		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}

		family, suffix := find(served, s.Name)
		if family == nil {
			out = append(out, s.Name+" is not served")
			return nil
		}

		used[family.GetName()] = true
		own := labelsOf(family)
		if suffix == "_bucket" {
			own = append(own, "le")
		}

		labels = append(labels, own...)
		for _, m := range s.LabelMatchers {
			switch {
			case m.Name == "__name__" || slices.Contains(targetLabels, m.Name):
			case !slices.Contains(own, m.Name):
				out = append(out, fmt.Sprintf("%s has no label %s", s.Name, m.Name))
			case m.Type.String() == "=" && !hasValue(family, m.Name, m.Value):
				out = append(out, fmt.Sprintf("%s has no series with %s=%q", s.Name, m.Name, m.Value))
			}
		}

		return nil
	})

	for _, label := range grouping {
		if !slices.Contains(labels, label) {
			out = append(out, "nothing has the label "+label)
		}
	}

	return out
}

// find returns the metric family of a series. A histogram has three series.
func find(served families, name string) (family *dto.MetricFamily, suffix string) {
	if f := served[name]; f != nil && f.GetType() != dto.MetricType_HISTOGRAM {
		return f, ""
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && served[base].GetType() == dto.MetricType_HISTOGRAM {
			return served[base], suffix
		}
	}
	return nil, ""
}

func labelsOf(family *dto.MetricFamily) []string {
	all := map[string]bool{}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			all[l.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func hasValue(family *dto.MetricFamily, label, value string) bool {
	return slices.ContainsFunc(family.GetMetric(), func(m *dto.Metric) bool {
		return slices.ContainsFunc(m.GetLabel(),
			func(l *dto.LabelPair) bool { return l.GetName() == label && l.GetValue() == value })
	})
}

const metricsHead = `# Metrics, alerts, dashboard

<!-- Generated from a running controller by "cd test && go test ./e2e -run TestMetrics -update". Do not edit. -->

The controller serves metrics at ` + "`https://POD:10258/metrics`" + ` to accounts that may ` + "`get`" + ` the URL ` + "`/metrics`" + `. All replicas serve them.
Only the leader works, so most metrics of the others stay at 0.

The chart values ` + "`serviceMonitor`" + `, ` + "`prometheusRule`" + ` and ` + "`grafanaDashboard`" + ` ([values](../charts/cloudstack-ccm/README.md#metrics)) are off by
default, because they need the Prometheus operator or Grafana's sidecar. How Prometheus gets its permission and verifies the
certificate: [chart.md](chart.md#verified-scrapes).

## Metrics of the controller

| metric | type | labels | what it says |
|---|---|---|---|
`

const frameworkHead = `
## Metrics of Kubernetes' libraries

The dashboard and the alerts use these. The libraries serve many more.

| metric | type | labels | what it says |
|---|---|---|---|
`

const alertsHead = `
## Alerts

What each alert means and how to end it: [runbooks](runbooks.md#alerts). ` + "`prometheusRule.disabled`" + ` turns alerts off by name.
`

// metricsPage returns the text of docs/metrics.md.
func metricsPage(served families, used map[string]bool) string {
	var b strings.Builder
	b.WriteString(metricsHead)
	for _, name := range slices.Sorted(maps.Keys(served)) {
		if strings.HasPrefix(name, "cloudstack_") {
			b.WriteString(metricsRow(served[name]))
		}
	}
	b.WriteString(frameworkHead)
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !strings.HasPrefix(name, "cloudstack_") {
			b.WriteString(metricsRow(served[name]))
		}
	}
	b.WriteString(alertsHead)
	return b.String()
}

// stability is the text with which Kubernetes marks its metrics.
var stability = regexp.MustCompile(`^\[[A-Z]+\]`)

func metricsRow(f *dto.MetricFamily) string {
	labels := "–"
	if l := labelsOf(f); len(l) > 0 {
		labels = "`" + strings.Join(l, "`, `") + "`"
	}
	help := strings.TrimSpace(stability.ReplaceAllString(f.GetHelp(), ""))
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), labels,
		strings.ReplaceAll(help, "|", `\|`))
}
