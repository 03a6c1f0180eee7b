// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// Simulator is cloudstack-sim as a child process. Its log contains every call, without secrets.
type Simulator struct {
	*child.Process `json:"-"`

	// URL is the URL of the API.
	URL string `json:"url"`
	// Page is the URL of its page, if it has one (--ui).
	Page string `json:"pageURL"`
}

// StartSimulator starts cloudstack-sim on a free loopback port and returns once it answers. dir is the folder of its
// log and its ready file.
func StartSimulator(ctx context.Context, binary, dir string, args ...string) (_ *Simulator, err error) {
	defer must.Return(&err)
	ready := filepath.Join(dir, "ready.json")
	s := &Simulator{Process: must.Get(child.Start(ctx, child.Command{
		Name: "cloudstack-sim",
		Path: binary,
		Log:  filepath.Join(dir, "cloudstack-sim.log"),
		Dir:  dir,
		Env:  []string{"TMPDIR=" + dir},
		Args: append([]string{"--listen", "127.0.0.1:0", "--print-keys=false", "--log-calls", "--ready-file", ready},
			args...),
	}))}

	err = s.Ready(ctx, 2*time.Minute, func(context.Context) error {
		return must.Catch(func() { must.OK(json.Unmarshal(must.Get(os.ReadFile(ready)), s)) }) // #nosec G304 -- ours
	})

	// The ready file contains keys, so it is removed after it was read.
	if err = errors.Join(err, os.RemoveAll(ready)); err != nil {
		s.Stop()
	}

	return s, err
}

// Stop stops the simulator.
func (s *Simulator) Stop() { s.Process.Stop(2 * time.Second) }
