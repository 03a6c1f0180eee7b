// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine/report"
)

func TestChecksError(t *testing.T) {
	t.Parallel()
	other := check.Result{Code: "CCM-003", Message: "another controller", Remedy: "stop it"}
	bare := check.Result{Code: "X-001", Message: "odd"}
	for _, c := range []struct {
		failed     []check.Result
		phase      check.Phase
		text, then string
	}{
		{[]check.Result{other}, check.PhasePreflight, "nothing was installed: CCM-003 failed: another controller", "stop it (or pass over it with --skip-check CCM-003)"},
		{[]check.Result{other}, check.PhaseInstalled, "installed, but CCM-003 failed: another controller", "stop it"},
		{
			[]check.Result{other, bare}, check.PhasePreflight, "nothing was installed: CCM-003 failed: another controller; X-001 failed: odd",
			"see the remedy of each check above (or pass over it with --skip-check CCM-003,X-001)",
		},
	} {
		var e *report.Error
		require.ErrorAs(t, checksFailed(c.phase, c.failed...), &e)
		require.Equal(t, c.text, e.Error())
		require.Equal(t, c.then, e.Remedy())
		require.Equal(t, 3, e.ExitCode())
	}
}
