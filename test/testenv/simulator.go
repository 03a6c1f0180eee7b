// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// SimulatorOptions configures cloudstack-sim.
type SimulatorOptions struct {
	Binary string
	// Dir is the folder of its log and its ready file.
	Dir string
	// Args are additional flags.
	Args []string
}

// Simulator is cloudstack-sim as a child process.
type Simulator struct {
	// URL is the URL of the API.
	URL string `json:"url"`
	// Page is the URL of its page, where it has one (--ui).
	Page string `json:"pageURL"`
	// Log is the path of its log: every call, without secrets.
	Log string `json:"-"`

	process *child.Process
}

const (
	simulatorStart = 2 * time.Minute
	simulatorGrace = 2 * time.Second
)

// StartSimulator starts cloudstack-sim on a free loopback port and returns when it answers.
func StartSimulator(ctx context.Context, o SimulatorOptions) (_ *Simulator, err error) {
	defer must.Return(&err)
	must.OK(os.MkdirAll(o.Dir, 0o700))
	ready := filepath.Join(o.Dir, "ready.json")
	s := &Simulator{Log: filepath.Join(o.Dir, "cloudstack-sim.log")}

	s.process = must.Get(child.Start(ctx, child.Command{
		Name: "cloudstack-sim", Path: o.Binary, Log: s.Log, Dir: o.Dir, Env: []string{"TMPDIR=" + o.Dir},
		Args: append([]string{"--listen", "127.0.0.1:0", "--print-keys=false", "--log-calls", "--ready-file", ready}, o.Args...),
	}))
	err = Wait(ctx, simulatorStart, "cloudstack-sim to answer", func(context.Context) error {
		if err := s.process.Err(); err != nil {
			return err
		}
		b, err := os.ReadFile(ready) // #nosec G304 -- ours
		if err != nil {
			return err
		}
		return json.Unmarshal(b, s)
	})
	// The ready file holds keys: it is removed when it has been read.
	err = errors.Join(err, os.RemoveAll(ready))
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("%w; its log ends with:\n%s", err, child.Tail(s.Log, 10))
	}
	return s, nil
}

// Err returns why the simulator ended by itself; nil while it runs.
func (s *Simulator) Err() error { return s.process.Err() }

// Stop stops the simulator.
func (s *Simulator) Stop() { s.process.Stop(simulatorGrace) }
