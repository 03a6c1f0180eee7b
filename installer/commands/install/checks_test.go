// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine/report"
)

func TestChecksError(t *testing.T) {
	t.Parallel()
	rights := check.Result{Code: "K8S-003", Message: "the caller may not: " + strings.Repeat("create roles, ", 40), Remedy: "have them granted"}
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
			[]check.Result{other, bare}, check.PhaseInstalled, "installed, but CCM-003, X-001 failed\n  CCM-003: another controller\n    fix: stop it\n  X-001: odd",
			"one after the other; csccm doctor looks again",
		},
		{
			[]check.Result{other, rights}, check.PhasePreflight,
			"nothing was installed: CCM-003, K8S-003 failed\n  CCM-003: another controller\n    fix: stop it\n  K8S-003: " + rights.Message[:157] + "...\n    fix: have them granted",
			"one after the other; csccm doctor looks again (or pass over it with --skip-check CCM-003,K8S-003)",
		},
	} {
		var e *report.Error
		require.ErrorAs(t, checksFailed(c.phase, c.failed...), &e)
		require.Equal(t, c.text, e.Error())
		require.Equal(t, c.then, e.Remedy())
		require.Equal(t, 3, e.ExitCode())
	}
}
