// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
)

// step is a step of a release. Its description is printed before it runs.
type step struct {
	what string
	do   func(context.Context) error
}

// runSteps prints and runs the steps; a dry run only prints them.
func runSteps(ctx context.Context, out io.Writer, dryRun bool, steps []step) error {
	prefix := ""
	if dryRun {
		prefix = "would "
	}
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, prefix+s.what); err != nil {
			return err
		}
		if dryRun {
			continue
		}
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}
