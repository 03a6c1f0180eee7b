// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shape compares the shape of a server's answers - members and their types - with what the simulator gives. The
// simulator answers the recorded calls of pkg/simulator/testdata/golden as the recorded server did, which its own tests
// prove, so the recordings are the contract.
package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Types of JSON values as the contract names them.
const (
	typeObject = "object"
	typeArray  = "array"
	typeString = "string"
	typeNumber = "number"
	typeBool   = "boolean"
	typeNull   = "null"
)

// errorOf is the name under which all refusals are: they look the same for every command.
const errorOf = "any refusal"

// freeKeys are objects whose members are named by users or by the configuration.
var freeKeys = map[string]bool{"details": true, "params": true, "resourcedetails": true, "accountdetails": true, "resources": true}

// Contract is the members that are known, by command and path, with their types.
type Contract struct {
	known map[string]map[string][]string
}

// NewContract returns an empty contract.
func NewContract() *Contract { return &Contract{known: map[string]map[string][]string{}} }

// Unknown is a member that the contract does not have, or has with other types.
type Unknown struct {
	Command, Path, Type string
	// Known are the types that the contract has; none for a member that is new.
	Known []string
}

func (u Unknown) String() string {
	if len(u.Known) > 0 {
		return fmt.Sprintf("%s: %s is %s, known as %s", u.Command, u.Path, u.Type, strings.Join(u.Known, " or "))
	}
	return fmt.Sprintf("%s: %s (%s) is not known", u.Command, u.Path, u.Type)
}

// Learn adds an answer to the contract.
func (c *Contract) Learn(command string, answer any) {
	each(command, answer, c.add)
}

func (c *Contract) add(command, path, kind string) {
	if c.known[command] == nil {
		c.known[command] = map[string][]string{}
	}
	if !slices.Contains(c.known[command][path], kind) {
		c.known[command][path] = append(c.known[command][path], kind)
	}
}

// Compare returns what of an answer the contract does not have. A command that was never recorded is one difference.
func (c *Contract) Compare(command string, answer any) []Unknown {
	var all []Unknown
	seen := map[string]bool{}
	each(command, answer, func(command, path, kind string) {
		known := c.known[command]
		u := Unknown{Command: command, Path: path, Type: kind, Known: known[path]}
		if known == nil {
			u.Path, u.Type, u.Known = "the whole answer", typeObject, nil
		} else if slices.Contains(known[path], kind) {
			return
		}
		// Members inside an unknown member are not reported again.
		for parent := range seen {
			if strings.HasPrefix(u.Command+" "+u.Path, parent+".") || strings.HasPrefix(u.Command+" "+u.Path, parent+"[") {
				return
			}
		}
		if key := u.Command + " " + u.Path; !seen[key] {
			seen[key] = true
			all = append(all, u)
		}
	})
	return all
}

// each calls f for each member of an answer, parents first. The wrapper's name is left out: it follows from the command.
func each(command string, answer any, f func(command, path, kind string)) {
	envelope, ok := answer.(map[string]any)
	if !ok {
		f(command, "the whole answer", kindOf(answer))
		return
	}
	for _, content := range envelope {
		if m, ok := content.(map[string]any); ok && (m["errorcode"] != nil || m["errortext"] != nil) {
			walk(errorOf, "", m, f)
			return
		}
		walk(command, "", content, f)
	}
}

func walk(command, path string, v any, f func(command, path, kind string)) {
	if path != "" {
		f(command, path, kindOf(v))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if key == "jobresult" {
				job(command, path, v, f)
				continue
			}
			name := key
			if last := path[strings.LastIndexByte(path, '.')+1:]; freeKeys[last] {
				name = "*"
			}
			walk(command, join(path, name), v[key], f)
		}
	case []any:
		for _, item := range v {
			walk(command, path+"[]", item, f)
		}
	}
}

// job is about the result of a job, whose shape is that of the command that the job belongs to.
func job(command, path string, v map[string]any, f func(command, path, kind string)) {
	result := v["jobresult"]
	f(command, join(path, "jobresult"), kindOf(result))
	class := classOf(v)
	if m, ok := result.(map[string]any); ok && m["errortext"] != nil {
		walk(errorOf, "", m, f)
		return
	}
	walk("job of "+class, "", result, f)
}

// classOf is the name of the Java class of a job's command, without its endings.
func classOf(job map[string]any) string {
	class, _ := job["cmd"].(string)
	return strings.TrimSuffix(strings.TrimSuffix(class[strings.LastIndexByte(class, '.')+1:], "ByAdmin"), "Cmd")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return typeObject
	case []any:
		return typeArray
	case string:
		return typeString
	case bool:
		return typeBool
	case nil:
		return typeNull
	default:
		return typeNumber
	}
}
