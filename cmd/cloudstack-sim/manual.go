// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build manual

package main

import (
	"os"

	"github.com/csccm/csccm/cmd/internal/manual"
	"github.com/csccm/csccm/pkg/version"
)

func init() {
	manual.Exit(newCommand(os.Stdout, os.Stderr), version.Version)
}
