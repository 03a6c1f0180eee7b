// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Outside is the work of a job's step that runs without the simulator's lock.
type Outside struct {
	job  *store.Job
	step int // of the job
	work func(ctx context.Context) func(now time.Time) error
}

// TakeOutside returns the work that steps want to run without the lock, each once.
func TakeOutside(st *store.State) []Outside {
	var out []Outside
	for _, j := range st.Outside {
		if len(j.Steps) > 0 && j.Steps[0].Outside != nil {
			out = append(out, Outside{job: j, step: j.Passed, work: j.Steps[0].Outside})
		}
	}
	st.Outside = nil
	return out
}

// Run runs the work. It returns the effect that ends the step.
func (o Outside) Run(ctx context.Context) func(now time.Time) error { return o.work(ctx) }

// Resume ends the step with the effect that Run returned, unless the job has ended or its step took too long.
func (o Outside) Resume(st *store.State, now time.Time, effect func(now time.Time) error) {
	i := slices.Index(st.Due, o.job)
	if i < 0 || o.job.Passed != o.step {
		return
	}
	st.Due = slices.Delete(st.Due, i, i+1)
	advance(st, o.job, now, effect)
}
