// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// catalogueJSON is the answer of listApis of CloudStack 4.22 to a root admin, with a mark on each command that role type
// User may call. It lists every command, implemented or not, with its parameters (type, length, required, since) and
// the structure of its answer.
//
//go:embed catalogue.json
var catalogueJSON []byte

type apiParam struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Length   int    `json:"length"` // 0: the default of 255
	Required bool   `json:"required"`
	Since    string `json:"since"`
	Admin    bool   `json:"admin"` // silently dropped for callers other than root admins
}

func (p *apiParam) maxLength() int {
	if p.Length == 0 {
		return 255
	}
	return p.Length
}

type apiSpec struct {
	Name   string     `json:"name"`
	Async  bool       `json:"async"`
	Since  string     `json:"since"`
	User   bool       `json:"user"` // allowed for role type User
	Params []apiParam `json:"params"`
	Shape  int        `json:"shape"`

	lower  string
	cmd    *command // nil: not implemented
	absent []string // lower-case names of parameters of newer releases, which are ignored
}

type apiField struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape *int   `json:"shape"`
}

type catalogue struct {
	APIs   []apiSpec    `json:"apis"`
	Shapes [][]apiField `json:"shapes"`

	byName map[string]*apiSpec
	// hides lists the fields that newer releases added, by the object's key in answers; nil: none.
	hides map[string][]string
	// routerTLS is set if virtual routers of the release can terminate TLS.
	routerTLS bool
}

// loadCatalogue decodes the catalogue once and links the implemented commands to it.
var loadCatalogue = sync.OnceValues(func() (*catalogue, error) {
	var c catalogue
	if err := json.Unmarshal(catalogueJSON, &c); err != nil {
		return nil, fmt.Errorf("decode the embedded command catalogue: %w", err)
	}
	c.byName = make(map[string]*apiSpec, len(c.APIs))
	c.routerTLS = true
	for i := range c.APIs {
		a := &c.APIs[i]
		a.lower = strings.ToLower(a.Name)
		c.byName[a.Name] = a
	}
	for i := range commands {
		cmd := &commands[i]
		a, ok := c.byName[cmd.name]
		if !ok {
			return nil, fmt.Errorf("command %s is implemented, but not in the catalogue", cmd.name)
		}
		a.cmd = cmd
		for _, p := range cmd.order {
			if a.param(p) == nil {
				return nil, fmt.Errorf("command %s has no parameter %s in the catalogue", cmd.name, p)
			}
		}
		a.reorder(cmd.order)
	}
	return &c, nil
})

// param finds a parameter by its lower-case name.
func (a *apiSpec) param(name string) *apiParam {
	for i := range a.Params {
		if strings.EqualFold(a.Params[i].Name, name) {
			return &a.Params[i]
		}
	}
	return nil
}

// reorder moves the named parameters to the front, in the order in which CloudStack processes them.
func (a *apiSpec) reorder(names []string) {
	if len(names) == 0 {
		return
	}
	out := make([]apiParam, 0, len(a.Params))
	done := map[string]bool{}
	for _, n := range names {
		p := a.param(n)
		out = append(out, *p)
		done[p.Name] = true
	}
	for _, p := range a.Params {
		if !done[p.Name] {
			out = append(out, p)
		}
	}
	a.Params = out
}

// command is an implemented command. Exactly one of run and submit is set.
type command struct {
	name string
	// refs maps each parameter of type uuid (or list of uuid) to the kind of object that it refers to.
	refs map[string]refKind
	// order lists the parameters whose processing order is known.
	order []string
	// write is set when run changes state.
	write bool
	// lock returns the name of the row that the create phase locks, as CloudStack does.
	lock func(*call) string
	// run answers a synchronous command; its result is the value of the answer's top-level key.
	run func(*call) (any, error)
	// submit validates an asynchronous command, runs its create phase and returns the job.
	submit func(*call) (*jobSpec, error)
	// class is the last part of the Java class name that jobs show.
	class string
	// wrapper is the top-level key of the answer, if it is not the command's name.
	wrapper string
}

// commands is the table of the implemented commands, grouped by family.
var commands = func() []command {
	var all []command
	for _, family := range [][]command{
		zoneCommands,
		offeringCommands,
		vmCommands,
		networkCommands,
		vpcCommands,
		aclCommands,
		addressCommands,
		lbCommands,
		memberCommands,
		firewallCommands,
		egressCommands,
		forwardCommands,
		tagCommands,
		jobCommands,
		apiCommands,
		accountCommands,
		userCommands,
		roleCommands,
		projectCommands,
		adminCommands,
		stickyCommands,
		healthCheckCommands,
		certCommands,
		internalLBCommands,
		cksVersionCommands,
		cksCommands,
		cksNodeCommands,
		physicalCommands,
		vmPowerCommands,
		vmDeployCommands,
		vmUpdateCommands,
		vmMetricsCommands,
		vmAssignCommands,
		nicCommands,
		volumeCommands,
		templateCommands,
		affinityCommands,
		sshKeyCommands,
		groupCommands,
		hostCommands,
		podCommands,
		domainCommands,
		limitCommands,
		configCommands,
		eventCommands,
		projectRoleCommands,
	} {
		all = append(all, family...)
	}
	return all
}()
