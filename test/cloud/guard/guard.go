// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard judges every call that reaches a cloud which others use too: a call that changes something passes only if
// all that it names was made by this run.
package guard

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Guard knows what a run has made.
type Guard struct {
	prefix string

	mu      sync.Mutex
	mine    map[string]string // id -> the command whose answer showed it
	home    home
	refused []string
}

// home is the account of a plain user, in which the run makes its objects because it cannot make an account.
type home struct{ account, domainID string }

// New returns the guard of a run. Names of what it makes start with prefix.
func New(prefix string) *Guard {
	return &Guard{prefix: prefix, mine: map[string]string{}}
}

// Home lets objects whose name has the prefix be made in an account that is not the run's.
func (g *Guard) Home(account, domainID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.home = home{account, domainID}
}

// Adopt adds an object that an earlier process of this run has made.
func (g *Guard) Adopt(id, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id != "" {
		g.mine[id] = why
	}
}

// Mine reports whether an object is known to be the run's.
func (g *Guard) Mine(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mine[id] != ""
}

// Refused are the calls that were refused.
func (g *Guard) Refused() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.refused)
}

// Judge returns why a call must not be made, or nil.
func (g *Guard) Judge(command string, params url.Values) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.judge(command, params)
	if err != nil {
		g.refused = append(g.refused, err.Error())
	}
	return err
}

// Reads reports whether a command changes nothing.
func Reads(command string) bool {
	return otherReads[command] || strings.HasPrefix(command, "list") && !notReads[command]
}

var (
	otherReads = map[string]bool{"login": true, "logout": true, "queryAsyncJobResult": true, "getUser": true, "getApiLimit": true}
	// notReads change something, or show secrets of the user that they name.
	notReads = map[string]bool{"listAndSwitchSamlAccount": true, "listUserKeys": true}
)

// index is the [0] of a parameter such as iptonetworklist[0].networkid.
var index = regexp.MustCompile(`\[\d+\]`)

func (g *Guard) judge(command string, params url.Values) error {
	if Reads(command) {
		return nil
	}
	makesNamed := slices.Contains(named, command)
	if !makesNamed && !slices.Contains(others, command) {
		return fmt.Errorf("%s: the guard has no rule for this command, and so refuses it", command)
	}
	owned := 0
	for name, values := range params {
		short := index.ReplaceAllString(strings.ToLower(name), "")
		if i := strings.LastIndexByte(short, '.'); i >= 0 {
			short = short[i+1:]
		}
		if !isReference(short) || slices.Contains(free[command], short) || slices.Contains(free[""], short) {
			continue
		}
		for id := range strings.SplitSeq(strings.Join(values, ","), ",") {
			switch {
			case id == "":
			case g.mine[id] != "":
				owned++
			case makesNamed && short == "domainid" && id == g.home.domainID && params.Get("account") == g.home.account:
			default:
				return fmt.Errorf("%s: %s=%s was not made by run %s", command, name, id, g.prefix)
			}
		}
	}
	if makesNamed {
		name := cmp.Or(params.Get("name"), params.Get("account"))
		if strings.HasPrefix(name, g.prefix) {
			return nil
		}
		return fmt.Errorf("%s: name %q does not start with %s", command, name, g.prefix)
	}
	if owned == 0 {
		return fmt.Errorf("%s names no object of run %s", command, g.prefix)
	}
	return nil
}

// isReference reports whether a parameter names other objects by their ids.
func isReference(short string) bool {
	return strings.HasSuffix(short, "id") || strings.HasSuffix(short, "ids") || short == "vm"
}
