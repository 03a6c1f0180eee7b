// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"sync"
	"time"
)

// throttle counts the calls of each account per interval (api.throttling.*).
type throttle struct {
	mu      sync.Mutex
	windows map[*account]*throttleWindow
}

type throttleWindow struct {
	start time.Time
	used  int
}

// used returns the number of counted calls of the account in the current interval, and the time until the interval
// ends.
func (t *throttle) used(a *account, interval time.Duration, now time.Time) (n int, left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.windows[a]
	if w == nil || now.Sub(w.start) >= interval {
		return 0, interval
	}
	return w.used, w.start.Add(interval).Sub(now)
}

// reset clears the count of an account, or of all accounts if a is nil.
func (t *throttle) reset(a *account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a == nil {
		clear(t.windows)
		return
	}
	delete(t.windows, a)
}

// admit counts a call and refuses it if it exceeds the limit. Root admins are exempt.
func (t *throttle) admit(a *account, limit int, interval time.Duration, now time.Time) *apiError {
	if limit <= 0 || a.rootAdmin() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.windows == nil {
		t.windows = map[*account]*throttleWindow{}
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

func tooMany(wait time.Duration) *apiError {
	return errf(http.StatusTooManyRequests, csGeneric, "The given user has reached his/her account api limit, please retry after [%d] ms.", wait.Milliseconds())
}

// clear clears all counts.
func (t *throttle) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.windows = nil
}
