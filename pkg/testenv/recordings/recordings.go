// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordings reads answers that were recorded from real management servers, in
// pkg/simulator/testdata. Each server has a folder, with a file for each command and index.json. A
// command's file is a list of exchanges; polls of a job are in the file of the command that started
// it. index.json lists the names of the cases in the order of recording.
package recordings

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// Recording is one exchange.
type Recording struct {
	Case        string          `json:"case"`
	Command     string          `json:"command"` // "raw" or empty: not an API command
	Caller      string          `json:"caller"`
	Params      map[string]any  `json:"params"`
	HTTPStatus  int             `json:"httpStatus"`
	ContentType string          `json:"contentType"`
	Response    json.RawMessage `json:"response"` // a string if the answer was not JSON
}

// Body returns the answer as it was on the wire.
func (r Recording) Body() []byte {
	var text string
	if json.Unmarshal(r.Response, &text) == nil {
		return []byte(text)
	}
	return r.Response
}

// Case returns the recording with this name. testdata is the path of pkg/simulator/testdata.
func Case(t testing.TB, testdata, name string) Recording {
	t.Helper()
	all, err := Read(testdata+"/golden", testdata+"/golden-forwards", testdata+"/golden-tags",
		testdata+"/golden-clusters", testdata+"/golden-cks")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(r Recording) bool { return r.Case == name })
	if i < 0 {
		t.Fatalf("%s is not recorded", name)
	}
	return all[i]
}

var mu, seen = sync.Mutex{}, map[string][]Recording{}

// Read returns the recordings of folders, each folder's in the order of recording.
func Read(dirs ...string) (all []Recording, err error) {
	mu.Lock()
	defer mu.Unlock()
	for _, dir := range dirs {
		if known, is := seen[dir]; is {
			all = append(all, known...)
			continue
		}

		here := map[string]Recording{}
		var names []string
		files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		for _, file := range files {
			raw, err := os.ReadFile(file) // #nosec G304 -- files of the checkout
			if err != nil {
				return nil, err
			}
			var some []Recording
			if filepath.Base(file) == "index.json" {
				err = json.Unmarshal(raw, &names)
			} else {
				err = json.Unmarshal(raw, &some)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, r := range some {
				here[r.Case] = r
			}
		}

		for _, name := range names {
			seen[dir] = append(seen[dir], here[name])
		}

		all = append(all, seen[dir]...)
		if len(here) == 0 || len(names) != len(here) {
			return nil, fmt.Errorf("%s: %d recordings, index.json names %d", dir, len(here), len(names))
		}
	}

	return all, nil
}
