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

	"github.com/csccm/csccm/pkg/testenv/recordings"
	"github.com/csccm/csccm/test/internal/must"
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
func (r *Recorder) Write(command, caller string, params url.Values, status int, contentType string, answer any) (err error) {
	defer must.Return(&err)
	r.mu.Lock()
	defer r.mu.Unlock()
	of, end := command, ""
	if command == "queryAsyncJobResult" {
		if class, state := jobOf(answer); class != "" {
			of, end = class, ".job-"+state
		}
	}
	r.count[of+end]++
	p := map[string]any{}
	for k, v := range params {
		p[k] = strings.Join(v, ",")
	}
	for _, k := range []string{"command", "response", "apikey", "signature", "sessionkey"} { // as the recordings that there are
		delete(p, k)
	}
	name := fmt.Sprintf("%s.new-%d%s", of, r.count[of+end], end)
	response := must.Get(json.Marshal(r.clean.Value("", answer)))
	text := must.Get(json.MarshalIndent(recordings.Recording{
		Case: name, Command: command, Caller: caller, Params: r.clean.object(p), HTTPStatus: status, ContentType: contentType, Response: response,
	}, "", " "))
	return os.WriteFile(filepath.Join(r.dir, name+".json"), append(text, '\n'), 0o600)
}

// jobOf returns the command that a job belongs to and its state, as the recordings are named.
func jobOf(answer any) (command, state string) {
	envelope, _ := answer.(map[string]any)
	for _, content := range envelope {
		m, _ := content.(map[string]any)
		class := classOf(m)
		if class == "" {
			return "", ""
		}
		status, _ := m["jobstatus"].(float64)
		return strings.ToLower(class[:1]) + class[1:], map[float64]string{0: "pending", 1: "success"}[status] + map[bool]string{true: "failure"}[status > 1]
	}
	return "", ""
}
