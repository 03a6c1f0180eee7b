// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/csccm/csccm/pkg/testenv/recordings"
	"github.com/csccm/csccm/test/internal/must"
)

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
func (c *Contract) Save(path string, beyond *Contract) (err error) {
	defer must.Return(&err)
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
	text := must.Get(json.MarshalIndent(rest.known, "", " "))
	return os.WriteFile(path, append(text, '\n'), 0o644) // #nosec G306 -- a file of the checkout
}

// notCommands are recordings of raw requests.
var notCommands = map[string]bool{"raw": true, "": true}

// Load reads folders of recordings into a contract.
func Load(dirs ...string) (_ *Contract, err error) {
	defer must.Return(&err)
	all := must.Get(recordings.Read(dirs...))
	c := NewContract()
	for _, r := range all {
		if notCommands[r.Command] {
			continue
		}
		var answer any
		if err := json.Unmarshal(r.Response, &answer); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Case, err)
		}
		c.Learn(r.Command, answer)
	}
	return c, nil
}
