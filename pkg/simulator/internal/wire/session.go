// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// SessionTimeout returns session.timeout: a session ends after this time without a call.
func SessionTimeout(st *store.State) time.Duration {
	return time.Duration(st.IntSetting("session.timeout")) * time.Minute
}

// Session is a logged-in session.
type Session struct {
	ID, Key string
	User    *store.User
	used    time.Time
}

// Sessions are the active sessions by JSESSIONID.
type Sessions struct {
	mu   sync.Mutex
	byID map[string]*Session
}

// NewSessions returns an empty set of sessions.
func NewSessions() *Sessions { return &Sessions{byID: map[string]*Session{}} }

// Start starts the session of a user.
func (s *Sessions) Start(u *store.User, now time.Time) *Session {
	ses := &Session{ID: store.RandomKey(18), Key: store.RandomKey(20), User: u, used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[ses.ID] = ses
	return ses
}

// End ends a session.
func (s *Sessions) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// Of returns the session of a request's cookie, if it has not expired.
func (s *Sessions) Of(r *http.Request, now time.Time, timeout time.Duration) *Session {
	cookie, err := r.Cookie("JSESSIONID")
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.byID[cookie.Value]
	if ses == nil {
		return nil
	}
	if now.Sub(ses.used) > timeout {
		delete(s.byID, ses.ID)
		return nil
	}
	ses.used = now
	return ses
}

// KeyMatches reports whether the request has the session key both as a parameter and as a cookie, as CloudStack's
// default of api.sessionkey.check.locations requires.
func (ses *Session) KeyMatches(r *http.Request, sent string) bool {
	cookie, err := r.Cookie("sessionkey")
	if err != nil {
		return false
	}
	same := func(a string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(ses.Key)) == 1 }
	return same(sent) && same(cookie.Value)
}

// Clear ends all sessions.
func (s *Sessions) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = map[string]*Session{}
}

// UserOf returns the user name of the session in a request's cookie. It does not extend the session.
func (s *Sessions) UserOf(r *http.Request) string {
	cookie, err := r.Cookie("JSESSIONID")
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.byID[cookie.Value]; ses != nil {
		return ses.User.Username
	}
	return ""
}
