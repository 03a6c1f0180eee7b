// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"sync"

	"github.com/csccm/csccm/pkg/simulator/internal/balancer"
	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/compute"
	"github.com/csccm/csccm/pkg/simulator/internal/events"
	"github.com/csccm/csccm/pkg/simulator/internal/identity"
	"github.com/csccm/csccm/pkg/simulator/internal/jobs"
	"github.com/csccm/csccm/pkg/simulator/internal/kubernetes"
	"github.com/csccm/csccm/pkg/simulator/internal/management"
	"github.com/csccm/csccm/pkg/simulator/internal/network"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// implemented are the implemented commands, and the catalogue with the parameters in the order of processing.
type implemented struct {
	cat    *catalogue.Catalogue
	byName map[string]*wire.Command
}

// loadCommands links the implemented commands to the catalogue.
var loadCommands = sync.OnceValues(func() (*implemented, error) {
	cat, err := catalogue.Load()
	if err != nil {
		return nil, err
	}
	out := &implemented{cat: cat.Clone(), byName: make(map[string]*wire.Command, len(commands))}
	for i := range commands {
		cmd := &commands[i]
		if err := out.cat.Reorder(cmd.Name, strings.Fields(cmd.Order)); err != nil {
			return nil, err
		}
		out.byName[cmd.Name] = cmd
	}
	return out, nil
})

// commands is the table of the implemented commands, grouped by family.
var commands = func() []wire.Command {
	var all []wire.Command
	for _, family := range [][]wire.Command{
		network.Commands, compute.Commands, balancer.Commands, kubernetes.Commands,
		identity.Commands, management.Commands, events.Commands, jobs.Commands,
	} {
		all = append(all, family...)
	}
	return all
}()
