// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// answers are the answers of reads, which are sent again while the state does not change.
type answers struct {
	mu    sync.Mutex
	known map[string]knownAnswer // by caller and parameters
}

// knownAnswer is an answer and the number of changes of the state before it.
type knownAnswer struct {
	changes int
	text    []byte
}

// reuse is an answer of a read: an earlier one, or where a new one is to be kept.
type reuse struct {
	key string // empty if the answer cannot be reused
	knownAnswer
}

// maxAnswers bounds the memory of answers.
const maxAnswers = 1000

// find looks for an answer to a call.
func (a *answers) find(c *wire.Call, changes int) reuse {
	var key strings.Builder
	key.WriteString(callerName(c))
	for _, name := range slices.Sorted(maps.Keys(c.Req.Values)) {
		if !wire.SecretParams[name] && name != "expires" {
			key.WriteString("\x00" + name + "=" + c.Req.Values[name])
		}
	}

	out := reuse{key.String(), knownAnswer{changes: changes}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.known[out.key]; known.changes == changes {
		out.text = known.text
	}
	return out
}

// keep keeps an answer.
func (a *answers) keep(r reuse, text []byte) {
	if a == nil || r.key == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxAnswers {
		clear(a.known)
	}
	r.text = bytes.Clone(text)
	a.known[r.key] = r.knownAnswer
}
