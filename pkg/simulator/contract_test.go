// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "testing"

// contractRow is one check, default or answer of CloudStack's API: a script in a world of its own.
type contractRow struct{ name, script string }

// playContract plays each row in an environment of its own.
func playContract(t *testing.T, start func(*testing.T) *env, rows []contractRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			start(t).play(row.script)
		})
	}
}
