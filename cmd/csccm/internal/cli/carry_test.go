// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Checks run in parallel, and each completes its remedy. Looking up the flags of a cobra command changes the command.
func TestCarryAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		root, doctor, migrate := &cobra.Command{
			Use: "csccm",
		}, &cobra.Command{Use: "doctor"}, &cobra.Command{Use: "migrate-rules"}
		doctor.Run, migrate.Run = func(*cobra.Command, []string) {}, func(*cobra.Command, []string) {}
		root.PersistentFlags().String("release", "", "")
		root.AddCommand(doctor, migrate)
		require.NoError(t, doctor.ParseFlags([]string{"--release", "ccm"}))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				carried := Carry("run csccm migrate-rules again", doctor, func() []string { return nil })
				assert.Equal(t, "run csccm migrate-rules --release ccm again", carried)
			})
		}

		all.Wait()
	}
}
