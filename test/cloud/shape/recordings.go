// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

// notCommands are recordings of raw requests.
var notCommands = map[string]bool{"raw": true, "": true}

// Load reads a folder of recordings into a contract.
func Load(dir string) (*Contract, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no recorded answers in %s", dir)
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
