// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// BreakOff fails a job that a restart interrupted; nothing is undone.
func BreakOff(j *store.Job, now time.Time) {
	j.Status, j.Code, j.Completed, j.Broken = store.JobFailed, wire.CodeInternal, now, true
	j.Run, j.Undo, j.Subject, j.Steps = nil, nil, nil, nil
}
