// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build manual

package main

import (
	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/cmd/internal/manual"
	"github.com/csccm/csccm/pkg/version"
)

func init() {
	manual.Exit(rootCommand(cli.New(cli.Stdio())), version.Version)
}
