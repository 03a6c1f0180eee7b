// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "net/http"

// sender returns the name of the user that a request claims to come from. It does not verify the signature.
func (s *Simulator) sender(r *http.Request, req *request, integration bool) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case req.command == "login":
		return req.values["username"]
	case integration:
		if u, ok := s.st.users.find(func(u *user) bool { return u.account.rootAdmin() }); ok {
			return u.username
		}
		return ""
	case req.values["apikey"] != "":
		if u := s.st.apiKeys[req.values["apikey"]]; u != nil {
			return u.username
		}
		return ""
	}
	return s.sessions.userOf(r)
}

// userOf returns the user name of the session in a request's cookie. It does not extend the session.
func (s *sessions) userOf(r *http.Request) string {
	cookie, err := r.Cookie("JSESSIONID")
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.byID[cookie.Value]; ses != nil {
		return ses.user.username
	}
	return ""
}
