// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// throttle counts the calls of each account per interval (api.throttling.*).
type throttle struct {
	mu      sync.Mutex
	windows map[*store.Account]*throttleWindow
}

type throttleWindow struct {
	start time.Time
	used  int
}

// Used returns the number of counted calls of the account in the current interval, and the time until the interval
// ends.
func (t *throttle) Used(a *store.Account, interval time.Duration, now time.Time) (n int, untilReset time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.windows[a]
	if w == nil || now.Sub(w.start) >= interval {
		return 0, interval
	}
	return w.used, w.start.Add(interval).Sub(now)
}

// Admit counts a call and refuses it if it exceeds the limit. Root admins are exempt.
func (t *throttle) Admit(a *store.Account, limit int, interval time.Duration, now time.Time) *Error {
	if limit <= 0 || a.RootAdmin() {
		return nil
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.windows == nil {
		t.windows = map[*store.Account]*throttleWindow{}
	}

	w := t.windows[a]
	if w == nil || now.Sub(w.start) >= interval {
		w = &throttleWindow{start: now}
		t.windows[a] = w
	}

	w.used++
	if w.used <= limit {
		return nil
	}

	return tooMany(w.start.Add(interval).Sub(now))
}

func tooMany(wait time.Duration) *Error {
	return Errf(http.StatusTooManyRequests, CSGeneric,
		"The given user has reached his/her account api limit, please retry after [%d] ms.", wait.Milliseconds())
}

// Clear clears all counts.
func (t *throttle) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.windows = nil
}
