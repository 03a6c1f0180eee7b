// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/page"
	uiserver "github.com/csccm/csccm/pkg/ui/server"
	"github.com/csccm/csccm/pkg/ui/simpage"
)

// startPage starts the page that --ui asks for, and returns its URL, which is valid for one visit. stop ends it.
func startPage(ctx context.Context, sim *simulator.Simulator, o *options) (url string, stop func() error, err error) {
	if !o.ui {
		return "", func() error { return nil }, nil
	}
	source := simpage.New(sim)
	s, err := uiserver.Listen(ctx, uiserver.Options{Source: source, Actions: source, Files: page.Files(), Interval: simpage.Interval})
	if err != nil {
		return "", nil, fmt.Errorf("--ui: %w", err)
	}
	serving, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving) }()
	return s.URL(), func() error {
		cancel()
		return <-done
	}, nil
}
