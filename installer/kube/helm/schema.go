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
	// Want describes the pattern in words; editors use the same keyword.
	Want       string                 `json:"patternErrorMessage"`
	WriteOnly  bool                   `json:"writeOnly"` // the value may be a secret and must not be printed
	Properties map[string]valueSchema `json:"properties"`
	Items      *valueSchema           `json:"items"`
	Additional json.RawMessage        `json:"additionalProperties"` // false, or a schema
	Ref        string                 `json:"$ref"`                 // "#/$defs/NAME"
	Defs       map[string]valueSchema `json:"$defs"`                // only in the root
}

// at returns the schema of the value with the path.
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
		switch s := root.at(m[1]); {
		case s.WriteOnly:
			values.Problems[i] = fmt.Sprintf("%s: want %s", m[1], s.Want)
		case s.Want != "":
			values.Problems[i] = fmt.Sprintf("%s: %s is not %s", m[1], m[2], s.Want)
		}
	}
	return err
}
