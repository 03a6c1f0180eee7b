// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Recording is one exchange in the format of pkg/simulator/testdata/golden.
type Recording struct {
	Case        string         `json:"case"`
	Command     string         `json:"command"`
	Caller      string         `json:"caller"`
	Params      map[string]any `json:"params"`
	HTTPStatus  int            `json:"httpStatus"`
	ContentType string         `json:"contentType"`
	Response    any            `json:"response"`
}

// simulatorShapes is what the simulator gives beyond the recordings, as a run of the suite against it has seen.
//
//go:embed simulator.json
var simulatorShapes []byte

// AddSimulator adds what the simulator gives where nothing was recorded.
func (c *Contract) AddSimulator() error {
	var known map[string]map[string][]string
	if err := json.Unmarshal(simulatorShapes, &known); err != nil {
		return fmt.Errorf("simulator.json: %w", err)
	}
	for command, paths := range known {
		for path, types := range paths {
			for _, t := range types {
				c.add(command, path, t)
			}
		}
	}
	return nil
}

// Save writes what the contract has beyond another one, as simulator.json has it.
func (c *Contract) Save(path string, beyond *Contract) error {
	rest := NewContract()
	for command, paths := range c.known {
		for member, types := range paths {
			for _, t := range types {
				if !slices.Contains(beyond.known[command][member], t) {
					rest.add(command, member, t)
				}
			}
		}
	}
	text, err := json.MarshalIndent(rest.known, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) // #nosec G306 -- a file of the checkout
}

// notCommands are recordings of raw requests.
var notCommands = map[string]bool{"raw": true, "": true}

// Load reads folders of recordings into a contract.
func Load(dirs ...string) (*Contract, error) {
	var files []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no recorded answers in %s", dir)
		}
		files = append(files, found...)
	}
	c := NewContract()
	for _, path := range files {
		if filepath.Base(path) == "index.json" {
			continue
		}
		text, err := os.ReadFile(path) // #nosec G304 -- files of the checkout
		if err != nil {
			return nil, err
		}
		var r Recording
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !notCommands[r.Command] {
			c.Learn(r.Command, r.Response)
		}
	}
	return c, nil
}
