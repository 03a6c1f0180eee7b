// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"sync"
	"testing"

	"github.com/spf13/cobra"
)

// Checks run at once, and each completes its remedy: cobra changes a command that is asked for its flags.
func TestCarryAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		root := &cobra.Command{Use: "csccm"}
		root.PersistentFlags().String("release", "", "")
		doctor := &cobra.Command{Use: "doctor", Run: func(*cobra.Command, []string) {}}
		migrate := &cobra.Command{Use: "migrate-rules", Run: func(*cobra.Command, []string) {}}
		root.AddCommand(doctor, migrate)
		if err := doctor.ParseFlags([]string{"--release", "ccm"}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				const want = "run csccm migrate-rules --release ccm again"
				if got := Carry("run csccm migrate-rules again", doctor, func() []string { return nil }); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}
		all.Wait()
	}
}
