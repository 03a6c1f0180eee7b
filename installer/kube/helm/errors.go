// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

var (
	// Helm has no types for these errors, only texts.
	guardText = regexp.MustCompile(`(?s)execution error at \([^)]*\): (.*)`)
	// groupText matches lines that only introduce more specific lines.
	groupText   = regexp.MustCompile(`^(validation failed|'[a-zA-Z]+' failed)$`)
	patternText = regexp.MustCompile(`^('.*') does not match pattern '.*'$`)
	schemaLine  = regexp.MustCompile(`^- at '([^']*)': (.*)$`)
)

// explain converts Helm's errors that users can resolve to errors with a remedy. schema is that of the chart's values.
func explain(name, namespace string, err error, schema []byte) error {
	text := err.Error()
	var problems []string
	if m := guardText.FindStringSubmatch(text); m != nil {
		problems = []string{strings.TrimPrefix(strings.TrimSpace(m[1]), "value ")}
	} else if strings.Contains(text, "values don't meet the specifications of the schema") {
		problems = schemaProblems(text, schema)
	}
	if len(problems) > 0 {
		return &report.Error{
			What: "chart values: " + strings.Join(problems, "; "), Code: report.ExitUsage,
			Fix: "correct the values; the chart's README.md and values.schema.json list them all",
		}
	}
	return fmt.Errorf("release %s in namespace %s: %w", name, namespace, err)
}

// schemaProblems converts Helm's list to lines such as "replicaCount: got string, want integer". The schema says in words what a
// pattern matches.
func schemaProblems(text string, schema []byte) []string {
	var root valueSchema
	_ = json.Unmarshal(schema, &root) // it only adds words
	var problems []string
	for line := range strings.Lines(text) {
		m := schemaLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || groupText.MatchString(m[2]) {
			continue
		}
		path, problem := strings.Trim(m[1], "/"), m[2]
		if value, title := patternText.FindStringSubmatch(problem), root.title(path); value != nil && title != "" {
			problem = value[1] + " is not " + title
		}
		problems = append(problems, strings.TrimPrefix(strings.ReplaceAll(path, "/", ".")+": "+problem, ": "))
	}
	slices.Sort(problems) // the validator's order is random
	return problems
}

// valueSchema is the part of a JSON schema that messages about a value use.
type valueSchema struct {
	Title      string                 `json:"title"` // says in words what the pattern matches
	Properties map[string]valueSchema `json:"properties"`
}

// title returns the title of the value with the path, which is empty for an element of a list.
func (s valueSchema) title(path string) string {
	for key := range strings.SplitSeq(path, "/") {
		s = s.Properties[key]
	}
	return s.Title
}
