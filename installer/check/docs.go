// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/csccm/csccm/installer/check/decide"
)

//go:embed checks.md.tmpl
var docs string

// WriteMarkdown writes the documentation of all checks: a section for each code, whose anchor is the code in lower case.
func WriteMarkdown(w io.Writer) error {
	return template.Must(template.New("checks").Funcs(template.FuncMap{"links": links}).Parse(docs)).Execute(w, All())
}

// links names the codes that a check needs beside K8S-001.
func links(codes []string) string {
	var out []string
	for _, c := range codes {
		if c != "K8S-001" {
			out = append(out, fmt.Sprintf("[%s](#%s)", c, decide.Anchor(c)))
		}
	}
	return strings.Join(out, ", ")
}
