// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build manual

package main

import (
	"github.com/csccm/csccm/cmd/internal/manual"
	"github.com/csccm/csccm/pkg/version"
)

func init() {
	root, err := newCommand(nil)
	if err != nil {
		panic(err)
	}
	root.Short = "Cloud controller manager for Apache CloudStack"
	manual.Exit(root, version.Version)
}
