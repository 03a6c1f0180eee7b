// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/simulator/internal/dump"
)

// Dump returns the current world. A simulator that starts from it gives the same answers: ids, states, tags, rules
// and, with Secrets, keys. A dump does not contain jobs, sessions, the ledger or passwords. The object of a running
// job remains unfinished, as after a restart. Users of a dump cannot log in until updateUser sets a password.
func (s *Simulator) Dump(o DumpOptions) (*World, error) {
	faults := s.Faults()
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows, err := dump.Encode(s.st, o)
	if err == nil {
		rows, err = dump.Plain(rows)
	}
	if err != nil {
		return nil, fmt.Errorf("dump the world: %w", err)
	}
	w := &World{Version: s.st.Version, Proposals: slices.Sorted(maps.Keys(s.server.Cat.Proposed)), Settings: s.st.Settings, Rows: rows}
	for _, f := range faults {
		w.Faults = append(w.Faults, f.Fault)
	}
	return w, nil
}

// DumpYAML returns Dump as a YAML file that LoadWorld reads.
func (s *Simulator) DumpYAML(o DumpOptions) ([]byte, error) {
	w, err := s.Dump(o)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("dump the world: %w", err)
	}
	return text, nil
}
