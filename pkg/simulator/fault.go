// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Inject arms a fault until remove is called.
func (s *Simulator) Inject(f Fault) (remove func()) {
	a := s.faults.Inject(f)
	return func() { s.faults.Remove(a.ID) }
}

// Arm arms a fault and returns the ID by which Disarm removes it.
func (s *Simulator) Arm(f Fault) (id int) { return s.faults.Inject(f).ID }

// Disarm removes an armed fault, and reports whether there was one.
func (s *Simulator) Disarm(id int) bool { return id > 0 && s.faults.Remove(id) > 0 }

// Faults returns the armed faults in the order in which they were armed.
func (s *Simulator) Faults() []ArmedFault { return s.faults.List() }

// sender returns the name of the user that a request claims to come from. It does not verify the signature.
func (s *Simulator) sender(r *http.Request, req *wire.Request, integration bool) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case req.Command == "login":
		return req.Values["username"]
	case integration:
		if u, ok := s.st.Users.Find(func(u *store.User) bool { return u.Account.RootAdmin() }); ok {
			return u.Username
		}
		return ""
	case req.Values["apikey"] != "":
		if u := s.st.APIKeys[req.Values["apikey"]]; u != nil {
			return u.Username
		}
		return ""
	}
	return s.server.Sessions.UserOf(r)
}
