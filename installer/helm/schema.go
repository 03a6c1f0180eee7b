// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// valueSchema is the part of a JSON schema that says what a value should be.
type valueSchema struct {
	// Want is what a pattern stands for, in words; the keyword is that of editors.
	Want       string                 `json:"patternErrorMessage"`
	WriteOnly  bool                   `json:"writeOnly"` // may hold a secret: it is not repeated
	Properties map[string]valueSchema `json:"properties"`
	Items      *valueSchema           `json:"items"`
	Additional json.RawMessage        `json:"additionalProperties"` // false, or a schema
	Ref        string                 `json:"$ref"`                 // "#/$defs/NAME"
	Defs       map[string]valueSchema `json:"$defs"`                // of the root
}

// at finds the schema of a value by its path.
func (s valueSchema) at(path string) valueSchema {
	defs := s.Defs
	for key := range strings.SplitSeq(path, ".") {
		next, ok := s.Properties[key]
		switch {
		case ok:
		case s.Items != nil:
			next = *s.Items
		default:
			if json.Unmarshal(s.Additional, &next) != nil {
				return valueSchema{}
			}
		}
		if name, ok := strings.CutPrefix(next.Ref, "#/$defs/"); ok {
			next = defs[name]
		}
		s = next
	}
	return s
}

var patternProblem = regexp.MustCompile(`^(\S+): ('.*') does not match pattern '.*'$`)

// inWords replaces patterns, which few people read, in the problems of a ValuesError by what the schema says in words.
func inWords(err error, schema []byte) error {
	var values *ValuesError
	var root valueSchema
	if !errors.As(err, &values) || json.Unmarshal(schema, &root) != nil {
		return err
	}
	for i, problem := range values.Problems {
		m := patternProblem.FindStringSubmatch(problem)
		if m == nil {
			continue
		}
		switch s := root.at(m[1]); {
		case s.WriteOnly:
			values.Problems[i] = fmt.Sprintf("%s: want %s", m[1], s.Want)
		case s.Want != "":
			values.Problems[i] = fmt.Sprintf("%s: %s is not %s", m[1], m[2], s.Want)
		}
	}
	return err
}
