// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// DefaultSessionTimeout is the default of session.timeout: a session ends after this time without a call.
const DefaultSessionTimeout = 30 * time.Minute

// SessionTimeout returns session.timeout, which is in minutes.
func SessionTimeout(st *store.State) time.Duration {
	if n := settings.Atoi(st.Setting("session.timeout")); n > 0 {
		return time.Duration(n) * time.Minute
	}
	return DefaultSessionTimeout
}

// Session is a logged-in session.
type Session struct {
	ID, Key string
	User    *store.User
	used    time.Time
}

// Sessions are the active sessions by JSESSIONID.
type Sessions struct {
	Mu   sync.Mutex
	ByID map[string]*Session
}

// NewSessions returns an empty set of sessions.
func NewSessions() *Sessions { return &Sessions{ByID: map[string]*Session{}} }

// Start starts the session of a user.
func (s *Sessions) Start(u *store.User, now time.Time) *Session {
	ses := &Session{ID: store.RandomKey(18), Key: store.RandomKey(20), User: u, used: now}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.ByID[ses.ID] = ses
	return ses
}

// End ends a session.
func (s *Sessions) End(id string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	delete(s.ByID, id)
}

// Of returns the session of a request's cookie, if it has not expired.
func (s *Sessions) Of(r *http.Request, now time.Time, timeout time.Duration) *Session {
	cookie, err := r.Cookie("JSESSIONID")
	if err != nil {
		return nil
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	ses := s.ByID[cookie.Value]
	if ses == nil {
		return nil
	}
	if now.Sub(ses.used) > timeout {
		delete(s.ByID, ses.ID)
		return nil
	}
	ses.used = now
	return ses
}

// KeyMatches requires the session key as a parameter and as a cookie, like the default of
// api.sessionkey.check.locations.
func (ses *Session) KeyMatches(r *http.Request, sent string) bool {
	cookie, err := r.Cookie("sessionkey")
	if err != nil {
		return false
	}
	same := func(a string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(ses.Key)) == 1 }
	return same(sent) && same(cookie.Value)
}

// Count returns the number of sessions.
func (s *Sessions) Count() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.ByID)
}
