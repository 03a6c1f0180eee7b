// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/must"
)

// Params are the parameters of a call.
type Params = cloudstack.Params

// Object is a JSON object of an answer.
type Object map[string]any

// Text returns a string field, or "".
func (o Object) Text(key string) string {
	s, _ := o[key].(string)
	return s
}

// Flag reports whether a field is true.
func (o Object) Flag(key string) bool {
	b, _ := o[key].(bool)
	return b
}

// Objects returns the objects of an array.
func (o Object) Objects(key string) (all []Object) {
	list, _ := o[key].([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// Credentials are API keys, or a login.
type Credentials struct {
	APIKey, SecretKey      string
	User, Password, Domain string
}

// Format prints nothing secret, whatever the verb.
func (c Credentials) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "the credentials of "+c.User)
}

// Client is csccm's API client, for any command by name. The methods of this package end the work on errors (see
// package must).
type Client struct{ *cloudapi.Client }

// callTimeout allows for slow servers; it bounds a read with all its retries.
const callTimeout = 2 * time.Minute

// Connect returns a client with API keys, or in the session of a login. A session ends after half an hour without a
// call, and a run may take longer.
func Connect(ctx context.Context, url string, who Credentials) Client {
	config := &cloudstack.Config{APIURL: url, APIKey: who.APIKey, SecretKey: who.SecretKey, Timeout: callTimeout}
	if who.APIKey != "" {
		return Client{must.Get(cloudapi.NewClient(config))}
	}
	return Client{must.Get(cloudapi.Login(ctx, config, who.User, who.Password, who.Domain))}
}

// Ask makes a call and returns the content of its answer.
func (c Client) Ask(ctx context.Context, command string, params Params) (answer Object) {
	must.OK(c.Call(ctx, command, params, &answer))
	return answer
}

// Do makes a call and waits for its job. It returns the created object.
func (c Client) Do(ctx context.Context, command string, params Params) Object {
	answer := c.Ask(ctx, command, params)
	if job := answer.Text("jobid"); job != "" {
		must.Get(c.Jobs().Result(ctx, command, job))
		answer, _ = c.Ask(ctx, "queryAsyncJobResult", Params{"jobid": job})["jobresult"].(map[string]any)
	}
	for _, v := range answer { // the one object of an answer such as {"network": {...}}
		if m, ok := v.(map[string]any); ok && len(answer) == 1 {
			return m
		}
	}
	return answer
}

// List returns all objects of a list command. object is the name of the array.
func (c Client) List(ctx context.Context, command, object string, params Params) []Object {
	return must.Get(cloudstack.List(ctx, c.Client.Client, command, object, params,
		func(o *Object) string { return o.Text("id") }))
}

// Journal is a record of a run on this machine's disk. It is written before the run creates anything, so that the
// run's objects can be found by name and removed after a crash.
type Journal struct {
	// URL is the run's CloudStack. Dir is the run's folder on this machine, which contains credentials.
	URL  string `json:"url"`
	Dir  string `json:"dir"`
	path string
}

const journalSuffix = ".jsonl"

// JournalDir returns the default folder of the journals.
func JournalDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "csccm-cloud"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "csccm-cloud"), err
}

// Write writes the journal of a run to a folder.
func (j *Journal) Write(dir, run string) (err error) {
	defer must.Return(&err)
	must.OK(os.MkdirAll(dir, 0o700))
	j.path = filepath.Join(dir, run+journalSuffix)
	return os.WriteFile(j.path, must.Get(json.Marshal(j)), 0o600)
}

// Remove removes the journal of a run that has left nothing.
func (j *Journal) Remove() error { return os.Remove(j.path) }

// Journals returns the journals of all runs that have not cleaned up, by run.
func Journals(dir string) (_ map[string]*Journal, err error) {
	defer must.Return(&err)
	all := map[string]*Journal{}
	for _, path := range must.Get(filepath.Glob(filepath.Join(dir, "*"+journalSuffix))) {
		j := &Journal{path: path}
		// #nosec G304 -- ours; of a run that was killed while it wrote, the name is enough
		_ = json.Unmarshal(must.Get(os.ReadFile(path)), j)
		all[strings.TrimSuffix(filepath.Base(path), journalSuffix)] = j
	}
	return all, nil
}
