// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
)

var errKilled = errors.New("the process was killed")

// killer ends the controller's process at one of its calls: from then on nothing it does arrives, neither at
// CloudStack nor at the API server, and its contexts have ended. Jobs under way go on without it.
type killer struct {
	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the life of the process
	cancel  context.CancelFunc
	command string
	nth     int
	after   bool // the call arrives, its answer does not
	dead    bool
}

// revive starts a new process.
func (k *killer) revive(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel()
	}
	k.ctx, k.cancel = context.WithCancel(ctx)
	k.dead, k.nth = false, 0
}

// arm makes the n-th call of a command from now on the last.
func (k *killer) arm(command string, nth int, after bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.command, k.nth, k.after = command, nth, after
}

func (k *killer) life() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ctx
}

func (k *killer) isDead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

// strikes tells whether a call is not to be sent, and whether it is to be sent without hearing the answer.
func (k *killer) strikes(command string) (before, after bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return true, false
	}
	if k.nth == 0 || command != k.command {
		return false, false
	}
	if k.nth--; k.nth > 0 {
		return false, false
	}
	k.dead = true
	return !k.after, k.after
}

// RoundTrip implements http.RoundTripper.
func (k *killer) RoundTrip(req *http.Request) (*http.Response, error) {
	command := req.URL.Query().Get("command")
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("command") != "" {
			command = form.Get("command")
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	before, after := k.strikes(command)
	if before {
		k.cancel()
		return nil, errKilled
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if after {
		if err == nil {
			_ = res.Body.Close()
		}
		k.cancel()
		return nil, errKilled
	}
	return res, err
}
