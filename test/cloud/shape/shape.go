// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shape compares the shape of a server's answers (their fields and types) with the shape of the simulator's
// answers. The contract are the recordings in pkg/simulator/testdata/golden: the simulator's own tests prove that it
// answers these calls like the recorded server.
package shape

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/testenv/recordings"
	"github.com/csccm/csccm/test/internal/must"
)

// errorOf is the command name under which all errors are stored: they have the same shape for every command.
const errorOf = "any refusal"

// freeKeys are objects whose field names are chosen by users or the configuration.
var freeKeys = []string{"details", "params", "resourcedetails", "accountdetails", "resources"}

// types are the types of fields, by command and path.
type types map[string]map[string][]string

// add adds a type; it reports whether the type is new.
func (t types) add(command, path, kind string) bool {
	if t[command] == nil {
		t[command] = map[string][]string{}
	}
	if slices.Contains(t[command][path], kind) {
		return false
	}
	t[command][path] = append(t[command][path], kind)
	return true
}

// Contract holds the known fields and their types.
type Contract struct{ known, learned types }

// simulatorShapes are shapes of the simulator that are in no recording, collected by a run of the suite against it.
//
//go:embed simulator.json
var simulatorShapes []byte

// Load returns the contract of folders of recordings. With simulator, it also contains the simulator's shapes that are
// in no recording.
func Load(simulator bool, dirs ...string) (_ *Contract, err error) {
	defer must.Return(&err)
	c := &Contract{types{}, types{}}
	if simulator {
		must.OK(json.Unmarshal(simulatorShapes, &c.known))
	}
	for _, r := range must.Get(recordings.Read(dirs...)) {
		if r.Command == "raw" || r.Command == "" { // recordings of raw requests
			continue
		}
		var answer any
		if err := json.Unmarshal(r.Response, &answer); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Case, err)
		}
		each(r.Command, answer, func(command, path, kind string) { c.known.add(command, path, kind) })
	}
	return c, nil
}

// Save writes the shapes that Check has added, in the format of simulator.json.
func (c *Contract) Save(path string) (err error) {
	defer must.Return(&err)
	text := must.Get(json.MarshalIndent(c.learned, "", " "))
	return os.WriteFile(path, append(text, '\n'), 0o644) // #nosec G306 -- a file of the checkout
}

// Check returns the fields of an answer that the contract lacks, and adds them to it. A command that was never
// recorded counts as one difference, and so does a field with all its children.
func (c *Contract) Check(command string, answer any) (unknown []string) {
	var reported []string // prefixes
	each(command, answer, func(command, path, kind string) {
		known, isNew := c.known[command][path], c.known[command] == nil
		if !c.known.add(command, path, kind) {
			return
		}
		c.learned.add(command, path, kind)
		at := command + " " + path
		text, inside := fmt.Sprintf("%s: %s (%s) is not known", command, path, kind), []string{at + ".", at + "["}
		switch {
		case isNew:
			text, inside = command+": the whole answer (object) is not known", []string{command + " "}
		case len(known) > 0:
			text = fmt.Sprintf("%s: %s is %s, known as %s", command, path, kind, strings.Join(known, " or "))
		}
		if !slices.ContainsFunc(reported, func(prefix string) bool { return strings.HasPrefix(at, prefix) }) {
			unknown, reported = append(unknown, text), append(reported, inside...)
		}
	})

	return unknown
}

// each calls f for each field of an answer, parents first. It omits the top-level key, which follows from the command.
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
			if last := path[strings.LastIndexByte(path, '.')+1:]; slices.Contains(freeKeys, last) {
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

// job visits the result of a job, which has the shape of the command that started the job.
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

// classOf returns the name of the Java class of a job's command, without its suffixes.
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
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	default:
		return "number"
	}
}
