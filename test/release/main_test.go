// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release tests a release from the source tree to a cluster that runs it: made and published by the release
// program, served on loopback, installed, verified, upgraded and rolled back by the real helm.
package release

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/csccm/csccm/test/testbed"
)

var update = flag.Bool("update", false, "write docs/transcripts/release.txt anew")

// tools are what the tests run.
var tools struct{ helm, skip string }

func TestMain(m *testing.M) {
	flag.Parse()
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare() error {
	if testing.Short() {
		tools.skip = "makes two releases, and builds the control plane and helm where they are not cached: not with -short"
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	var err error
	tools.helm, err = testbed.Helm(ctx, func() { fmt.Fprintln(os.Stderr, "helm is built once, which takes some minutes") })
	return err
}
