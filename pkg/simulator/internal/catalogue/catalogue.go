// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalogue holds the commands of CloudStack 4.22 with their parameters and answers, and what the releases
// since 4.16 added.
package catalogue

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// catalogueJSON is the answer of listApis of CloudStack 4.22 to a root admin. It marks the commands that the role type
// User may call. It lists every command, implemented or not, with its parameters (type, length, required, since) and
// the structure of its answer.
//
//go:embed catalogue.json
var catalogueJSON []byte

// Param is a parameter of a command.
type Param struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Length   int    `json:"length"` // 0: the default of 255
	Required bool   `json:"required"`
	Since    string `json:"since"`
	Admin    bool   `json:"admin"` // silently dropped for callers other than root admins
}

// MaxLength returns the longest value that the parameter accepts.
func (p *Param) MaxLength() int {
	if p.Length == 0 {
		return 255
	}
	return p.Length
}

// API is a command of CloudStack with its parameters.
type API struct {
	Name   string  `json:"name"`
	Async  bool    `json:"async"`
	Since  string  `json:"since"`
	User   bool    `json:"user"` // allowed for role type User
	Params []Param `json:"params"`
	Shape  int     `json:"shape"`

	Lower  string
	Absent []string // lower-case names of parameters that only newer releases have; they are ignored
}

// Field is a field of an answer.
type Field struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape *int   `json:"shape"`
}

// Catalogue holds the commands and the shapes of their answers.
type Catalogue struct {
	APIs   []API     `json:"apis"`
	Shapes [][]Field `json:"shapes"`

	ByName map[string]*API
	// Hides lists the fields that only newer releases have, by the object's key in answers; nil: none.
	Hides map[string][]string
	// RouterTLS is set if virtual routers of the release can terminate TLS.
	RouterTLS bool
}

// Load decodes the catalogue, once.
var Load = sync.OnceValues(func() (*Catalogue, error) {
	var c Catalogue
	if err := json.Unmarshal(catalogueJSON, &c); err != nil {
		return nil, fmt.Errorf("decode the embedded command catalogue: %w", err)
	}
	for i := range c.APIs {
		c.APIs[i].Lower = strings.ToLower(c.APIs[i].Name)
	}
	c.index()
	c.RouterTLS = true
	return &c, nil
})

// Param finds a parameter by its lower-case name.
func (a *API) Param(name string) *Param {
	for i := range a.Params {
		if strings.EqualFold(a.Params[i].Name, name) {
			return &a.Params[i]
		}
	}
	return nil
}

// Clone returns a copy whose parameters may be reordered.
func (cat *Catalogue) Clone() *Catalogue {
	out := *cat
	out.APIs = slices.Clone(cat.APIs)
	out.index()
	return &out
}

func (cat *Catalogue) index() {
	cat.ByName = make(map[string]*API, len(cat.APIs))
	for i := range cat.APIs {
		cat.ByName[cat.APIs[i].Name] = &cat.APIs[i]
	}
}

// Reorder moves the named parameters of a command to the front, in the order in which CloudStack processes them.
func (cat *Catalogue) Reorder(command string, names []string) error {
	a := cat.ByName[command]
	if a == nil {
		return fmt.Errorf("command %s is implemented, but not in the catalogue", command)
	}

	if len(names) == 0 {
		return nil
	}

	out := make([]Param, 0, len(a.Params))
	done := map[string]bool{}
	for _, n := range names {
		p := a.Param(n)
		if p == nil {
			return fmt.Errorf("command %s has no parameter %s in the catalogue", command, n)
		}
		out = append(out, *p)
		done[p.Name] = true
	}

	for _, p := range a.Params {
		if !done[p.Name] {
			out = append(out, p)
		}
	}

	a.Params = out
	return nil
}
