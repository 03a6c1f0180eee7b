// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

//go:embed readme.md.tmpl
var page string

// Value is one documented value of values.yaml.
type Value struct {
	// Path is the dotted name, Default is compact JSON, and Text is the comment above the value.
	Path, Default, Text string
}

// Section is a "## @section" comment with the values up to the next one.
type Section struct {
	Title  string
	Values []Value
}

type chartYAML struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	KubeVersion string `yaml:"kubeVersion"`
}

// Generate returns the README.md of the chart in files.
func Generate(files fs.FS) ([]byte, error) {
	var chart chartYAML
	raw, err := fs.ReadFile(files, "Chart.yaml")
	if err != nil {
		return nil, err
	}

	if err := yaml.Unmarshal(raw, &chart); err != nil {
		return nil, fmt.Errorf("read Chart.yaml: %w", err)
	}

	raw, err = fs.ReadFile(files, "values.yaml")
	if err != nil {
		return nil, err
	}

	sections, err := Sections(raw)
	if err != nil {
		return nil, fmt.Errorf("read values.yaml: %w", err)
	}

	parsed, err := template.New("page").Funcs(template.FuncMap{"cell": cell}).Parse(page)
	if err != nil {
		return nil, err
	}

	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{"Chart": chart, "Sections": sections})
	return out.Bytes(), err
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

var sectionComment = regexp.MustCompile(`(?m)^## @section (.+)$`)

// Sections parses values.yaml. Every value needs a comment that starts with "# --", or is part of a mapping with such a
// comment.
func Sections(raw []byte) ([]Section, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}

	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("want a mapping")
	}

	// Find sections by line number, because blank lines influence to which node the YAML parser attaches a comment.
	type mark struct {
		line  int
		title string
	}

	var marks []mark
	for i, line := range strings.Split(string(raw), "\n") {
		if m := sectionComment.FindStringSubmatch(line); m != nil {
			marks = append(marks, mark{i + 1, m[1]})
		}
	}

	if len(marks) == 0 {
		return nil, errors.New(`no "## @section" comment`)
	}

	sections := make([]Section, len(marks))
	for i := range marks {
		sections[i].Title = marks[i].title
	}

	var errs []error
	top := doc.Content[0].Content
	for i := 0; i < len(top); i += 2 {
		at := -1
		for n, m := range marks {
			if m.line < top[i].Line {
				at = n
			}
		}
		if at < 0 {
			errs = append(errs, fmt.Errorf("%s is before the first section", top[i].Value))
			continue
		}

		values, err := valuesOf("", top[i], top[i+1])
		if err != nil {
			errs = append(errs, err)
		}
		sections[at].Values = append(sections[at].Values, values...)
	}

	return sections, errors.Join(errs...)
}

// valuesOf returns the documented values at and below a key. A mapping with a comment is one value.
func valuesOf(prefix string, key, value *yaml.Node) ([]Value, error) {
	path := prefix + key.Value
	text, documented := description(key.HeadComment)
	if !documented {
		if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
			return nil, fmt.Errorf(`%s (line %d) has no comment that starts with "# --"`, path, key.Line)
		}

		var all []Value
		var errs []error
		for i := 0; i < len(value.Content); i += 2 {
			below, err := valuesOf(path+".", value.Content[i], value.Content[i+1])
			all = append(all, below...)
			errs = append(errs, err)
		}

		return all, errors.Join(errs...)
	}

	var plain any
	if err := value.Decode(&plain); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	var def bytes.Buffer
	enc := json.NewEncoder(&def)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(plain); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return []Value{{Path: path, Default: strings.TrimSpace(def.String()), Text: text}}, nil
}

// Shown returns the default as it is shown in a table.
func (v Value) Shown() string {
	if len(v.Default) > 100 {
		return "see values.yaml"
	}
	return "`" + v.Default + "`"
}

// description returns the text after "# -- " up to the end of the comment, as one line.
func description(comment string) (string, bool) {
	_, text, found := strings.Cut("\n"+comment, "\n# -- ")
	if !found {
		return "", false
	}

	var words []string
	for _, line := range strings.Split(text, "\n") {
		words = append(words, strings.TrimSpace(strings.TrimLeft(line, "#")))
	}

	return strings.Join(words, " "), true
}
