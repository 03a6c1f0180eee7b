// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net/url"
	"slices"
	"strings"
)

// owners are members of an answer's object that say in what it is: an object in something of the run is the run's.
var owners = []string{
	"domainid", "projectid", "parentdomainid", "networkid", "associatednetworkid", "vpcid", "publicipid", "publicipaddressid", "ipaddressid",
	"virtualmachineid", "accountid", "aclid", "sourceipaddressnetworkid",
}

// children are arrays and objects in an object that is the run's which are parts of it.
var children = map[string]bool{"nic": true, "user": true, "loadbalancerrule": true}

// Learn takes from an answer what is the run's: the object that a call made, and objects in it.
func (g *Guard) Learn(command string, params url.Values, answer any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	envelope, _ := answer.(map[string]any)
	for _, content := range envelope {
		c, ok := content.(map[string]any)
		if !ok {
			continue
		}
		if !makes(command) {
			g.look(command, c)
			continue
		}
		g.add(command, c) // the id stands in the answer itself, or in the one object in it
		for _, v := range c {
			if m, ok := v.(map[string]any); ok {
				g.add(command, m)
			}
		}
	}
}

// makes reports whether the answer of a command shows an object that the call has made.
func makes(command string) bool {
	known := slices.Contains(slices.Concat(named, others), command)
	return known && strings.HasPrefix(command, "create") || slices.Contains([]string{"associateIpAddress", "deployVirtualMachine", "uploadSslCert"}, command)
}

// look adds the objects of a list or of a job's result that are in something of the run.
func (g *Guard) look(command string, content map[string]any) {
	for _, v := range content {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok && g.inside(m) {
					g.add(command, m)
				}
			}
		case map[string]any:
			if g.inside(v) {
				g.add(command, v)
			}
			g.look(command, v)
		}
	}
}

func (g *Guard) inside(m map[string]any) bool {
	for _, key := range owners {
		if id, _ := m[key].(string); id != "" && g.mine[id] != "" {
			return true
		}
	}
	return false
}

// add remembers an object and its parts.
func (g *Guard) add(command string, m map[string]any) {
	if id, _ := m["id"].(string); id != "" && g.mine[id] == "" {
		g.mine[id] = command
	}
	for key, v := range m {
		if !children[key] {
			continue
		}
		parts, _ := v.([]any)
		for _, part := range parts {
			if p, ok := part.(map[string]any); ok {
				g.add(command, p)
			}
		}
	}
}
