// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Recorder writes one recording for each new shape, without ids and secrets.
type Recorder struct {
	dir   string
	clean *Cleaner

	mu    sync.Mutex
	count map[string]int
}

// NewRecorder writes to a folder, which it makes.
func NewRecorder(dir string) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return &Recorder{dir: dir, clean: NewCleaner(), count: map[string]int{}}, nil
}

// Write writes an exchange.
func (r *Recorder) Write(command, caller string, params url.Values, status int, contentType string, answer any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[command]++
	p := map[string]any{}
	for k, v := range params {
		p[k] = strings.Join(v, ",")
	}
	delete(p, "command")
	delete(p, "response")
	name := fmt.Sprintf("%s.new-%d", command, r.count[command])
	text, err := json.MarshalIndent(Recording{
		Case: name, Command: command, Caller: caller, Params: r.clean.Value("", p).(map[string]any),
		HTTPStatus: status, ContentType: contentType, Response: r.clean.Value("", answer),
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, name+".json"), append(text, '\n'), 0o600)
}
