// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"sync"
)

// implemented are the implemented commands, and the catalogue with the parameters in the order of processing.
type implemented struct {
	cat    *catalogue
	byName map[string]*command
}

// loadCommands links the implemented commands to the catalogue.
var loadCommands = sync.OnceValues(func() (*implemented, error) {
	cat, err := loadCatalogue()
	if err != nil {
		return nil, err
	}
	out := &implemented{cat: cat.clone(), byName: make(map[string]*command, len(commands))}
	for i := range commands {
		cmd := &commands[i]
		if err := out.cat.reorder(cmd.name, cmd.order); err != nil {
			return nil, err
		}
		out.byName[cmd.name] = cmd
	}
	return out, nil
})

// commands is the table of the implemented commands, grouped by family.
var commands = func() []command {
	var all []command
	for _, family := range [][]command{
		networkCommands, computeCommands(createIsolatedNetwork), balancerCommands, kubernetesCommands(createIsolatedNetwork), identityCommands, managementCommands, eventsCommands, jobsCommands,
	} {
		all = append(all, family...)
	}
	return all
}()
