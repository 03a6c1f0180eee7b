// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// Inject arms a fault until remove is called.
func (s *Simulator) Inject(f Fault) (remove func()) {
	a := s.faults.Inject(f)
	return func() { s.faults.Remove(a.ID) }
}

// Faults returns the armed faults in the order in which they were armed.
func (s *Simulator) Faults() []ArmedFault { return s.faults.List() }
