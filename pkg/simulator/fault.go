// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
)

// Inject arms a fault until remove is called.
func (s *Simulator) Inject(f fault.Fault) (remove func()) {
	a := s.faults.Inject(f)
	return func() { s.faults.Remove(a.ID) }
}

// Faults returns the armed faults in the order in which they were armed.
func (s *Simulator) Faults() []fault.Armed { return s.faults.List() }
