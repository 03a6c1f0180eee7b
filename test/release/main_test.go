// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release tests a release from the source tree to a running cluster: release/steps makes and publishes it, a
// server on loopback serves it, and the real helm verifies, installs, upgrades and rolls it back.
package release

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/testenv"
)

// rehearse needs goreleaser, syft, cosign, crane and helm in bin/ (make release-rehearsal builds them).
var rehearse = flag.Bool("rehearse", false, "make the releases with goreleaser, sign and verify them, and write bin/rehearsal.txt")

// tools holds the path of helm, and why the tests are skipped, if they are.
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
		tools.skip = "with -short: this test makes two releases, and builds the control plane and helm when they are not cached"
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	var err error
	tools.helm, err = testenv.Helm(ctx, program.Print(os.Stderr))
	return err
}
