// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/simulator/datapath"
)

// startDataPath starts the data path that --data-path selects. It returns nil if the flag is not set.
func startDataPath(
	ctx context.Context, sim *simulator.Simulator, o *options, log *slog.Logger,
) (*datapath.Path, error) {
	if o.dataPath == "" {
		for flag, value := range map[string]string{
			"link":       o.link,
			"members":    o.membersFile,
			"forwarding": o.forwarding,
		} {
			if value != "" {
				return nil, fmt.Errorf("--data-path-%s needs --data-path", flag)
			}
		}
		return nil, nil
	}

	to := map[string]string{}
	if o.membersFile != "" {
		raw, err := os.ReadFile(o.membersFile)
		if err == nil {
			err = yaml.UnmarshalStrict(raw, &to)
		}
		if err != nil {
			return nil, fmt.Errorf("--data-path-members %s: %w", o.membersFile, err)
		}
	}

	members, err := datapath.ParseMembers(to)
	if err != nil {
		return nil, fmt.Errorf("--data-path-members %s: %w", o.membersFile, err)
	}

	path, err := datapath.Start(ctx, sim,
		datapath.Options{
			Mode:       o.dataPath,
			Link:       o.link,
			Members:    members,
			Forwarding: o.forwarding,
			HAProxy:    datapath.FindHAProxy(),
			Logger:     log,
		})
	if err != nil {
		return nil, fmt.Errorf("--data-path: %w", err)
	}

	return path, nil
}

// describe writes the listen addresses of the rules that are in force.
func describe(w io.Writer, path *datapath.Path) {
	s := path.Status()
	// w is a strings.Builder, which never fails
	_, _ = fmt.Fprintf(w, "data path:        %s, %d rules\n", s.Mode, len(s.Rules))
	for _, r := range s.Rules {
		_, _ = fmt.Fprintf(w, "  %s listens on %s\n", r.Public, r.Listen)
	}
	for _, f := range s.Forwards {
		_, _ = fmt.Fprintf(w, "  %s leads to %s (%s) %s\n", f.Public, f.To, s.Forwarding, f.Listen)
	}
}
