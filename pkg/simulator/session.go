// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// loginView is the content of loginresponse.
type loginView struct {
	Username       string `json:"username"`
	UserID         string `json:"userid"`
	DomainID       string `json:"domainid"`
	Timeout        int    `json:"timeout"`
	Account        string `json:"account"`
	FirstName      string `json:"firstname"`
	LastName       string `json:"lastname"`
	Type           string `json:"type"`
	Timezone       string `json:"timezone,omitempty"`
	TimezoneOffset string `json:"timezoneoffset,omitempty"`
	Registered     string `json:"registered"`
	SessionKey     string `json:"sessionkey"`
	Is2FAEnabled   string `json:"is2faenabled"`
	Is2FAVerified  string `json:"is2faverified"`
	IssuerFor2FA   string `json:"issuerfor2fa"`
	ManagementID   string `json:"managementserverid,omitempty"`
}

// loginPath returns the path of the login's domain below ROOT, with a slash at both ends. Unlike in the paths of
// listDomains, a leading ROOT is the name of a domain below ROOT here.
func loginPath(sent string) string {
	if !strings.HasSuffix(sent, "/") {
		sent += "/"
	}
	if !strings.HasPrefix(sent, "/") {
		sent = "/" + sent
	}
	return sent
}

// login executes the command login and sets the session's cookies.
func (s *Simulator) login(w http.ResponseWriter, req *wire.Request, now time.Time) (any, *wire.Error) {
	if !req.Post {
		return nil, &wire.Error{
			Status: http.StatusMethodNotAllowed,
			Text:   "Please use HTTP POST to authenticate using this API",
			Plain:  true,
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	path := loginPath(req.Values["domain"])
	dom, found := st.Domains.Find(func(d *store.Domain) bool { return strings.EqualFold(d.Path(), path) })
	if id, ok := req.Values["domainid"]; ok {
		if dom, found = st.Domains.Get(id); !found {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return nil, &wire.Error{
					Status: http.StatusUnauthorized,
					Text:   "Invalid domain id entered, please enter a valid one",
				}
			}
			dom, found = st.Domains.ByID(n)
		}
	}

	name := req.Values["username"]
	refuse := func(id string) *wire.Error {
		return &wire.Error{
			Status: wire.CodeAccount,
			Text:   "Failed to authenticate user " + name + " in domain " + id + "; please provide valid credentials",
		}
	}

	if !found {
		return nil, &wire.Error{Status: wire.CodeAccount, Text: "Unable to find the domain from the path " + path}
	}

	u, ok := st.UserIn(dom, name)
	if !ok || !passwordFits(st, u, req.Values["password"]) {
		return nil, refuse(strconv.FormatInt(dom.ID, 10))
	}

	if u.State != store.StateEnabled || u.Account.State != store.StateEnabled {
		return nil, &wire.Error{
			Status: wire.CodeAccount,
			Text: fmt.Sprintf("User %s (or their account) in domain %s is disabled/locked. Please contact the "+
				"administrator.", u.Text(), dom.Text()),
		}
	}

	u.Failures = 0
	recordUser(st, u, "USER.LOGIN", "user has logged in from IP Address /127.0.0.1", now)
	ses := s.server.Sessions.Start(u, now)
	for k, v := range map[string]string{"JSESSIONID": ses.ID, "sessionkey": ses.Key} {
		http.SetCookie(w,
			&http.Cookie{ //nolint:gosec // like CloudStack, which sets Secure only on HTTPS; the simulator serves HTTP
				Name: k, Value: v, Path: "/client", HttpOnly: true, SameSite: http.SameSiteLaxMode,
			})
	}

	view := loginView{
		Username:      u.Username,
		UserID:        u.UUID,
		DomainID:      u.Account.Domain.UUID,
		Timeout:       int(wire.SessionTimeout(st).Seconds()),
		Account:       u.Account.Name,
		FirstName:     u.FirstName,
		LastName:      u.LastName,
		Type:          strconv.Itoa(u.Account.Typ()),
		Registered:    "false",
		SessionKey:    ses.Key,
		Is2FAEnabled:  "false",
		Is2FAVerified: "true",
		IssuerFor2FA:  "CloudStack",
	}

	if u.Timezone != "" {
		view.Timezone, view.TimezoneOffset = u.Timezone, "0.0"
	}

	if u.Account.RootAdmin() {
		view.ManagementID = st.MsID
	}

	return view, nil
}

// recordUser records the event of a login or logout.
func recordUser(st *store.State, u *store.User, kind, text string, now time.Time) {
	st.AddEvent(&store.Event{
		Entity:   store.Entity{Created: now},
		Kind:     kind,
		State:    store.EventCompleted,
		Text:     text,
		Owner:    u.Account,
		User:     u,
		Resource: store.Resource{Kind: "User", UUID: u.UUID, Name: u.Username},
	})
}

// passwordFits reports whether the password is correct. Too many wrong passwords in a row disable the user, except
// users of root admin accounts.
func passwordFits(st *store.State, u *store.User, password string) bool {
	if u.Password != "" && subtle.ConstantTimeCompare([]byte(u.Password), []byte(password)) == 1 {
		return true
	}
	most := settings.Atoi(st.Setting("incorrect.login.attempts.allowed"))
	if u.Failures++; u.State == store.StateEnabled && most > 0 && u.Failures >= most && !u.Account.RootAdmin() {
		u.State = store.StateDisabled
	}
	return false
}
