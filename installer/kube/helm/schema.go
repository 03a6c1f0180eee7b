// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/typo"
)

// valueSchema is the part of a JSON schema that messages about a value use.
type valueSchema struct {
	Title      string                 `json:"title"` // says in words what the pattern matches
	Properties map[string]valueSchema `json:"properties"`
}

// at returns the schema of the value with the path, which is empty for an element of a list.
func (s valueSchema) at(path string) valueSchema {
	for key := range strings.SplitSeq(path, ".") {
		s = s.Properties[key]
	}
	return s
}

var patternProblem = regexp.MustCompile(`^(\S+): ('.*') does not match pattern '.*'$`)

var unknownProblem = regexp.MustCompile(`^(\S+): there is no such value$`)

// meant returns what somebody may have meant by a value that the schema does not have; "" if nothing is close.
func (s valueSchema) meant(path string) string {
	parent, name := "", path
	if i := strings.LastIndexByte(path, '.'); i > 0 {
		parent, name = path[:i+1], path[i+1:]
		s = s.at(path[:i])
	}
	near := typo.Nearest(name, slices.Collect(maps.Keys(s.Properties)), 1+len(name)/4)
	for i := range near {
		near[i] = parent + near[i]
	}
	return strings.Join(near, " or ")
}

// inWords replaces regular expressions in the problems of a ValuesError by their description in the schema.
func inWords(err error, schema []byte) error {
	var values *ValuesError
	var root valueSchema
	if !errors.As(err, &values) || json.Unmarshal(schema, &root) != nil {
		return err
	}
	for i, problem := range values.Problems {
		if m := unknownProblem.FindStringSubmatch(problem); m != nil {
			if names := root.meant(m[1]); names != "" {
				values.Problems[i] += ", did you mean " + names + "?"
			}
			continue
		}
		m := patternProblem.FindStringSubmatch(problem)
		if m == nil {
			continue
		}
		if title := root.at(m[1]).Title; title != "" {
			values.Problems[i] = fmt.Sprintf("%s: %s is not %s", m[1], m[2], title)
		}
	}
	return err
}
