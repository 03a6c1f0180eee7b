// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sessionTimeout is the default of session.timeout: a session ends after this time without a call.
const sessionTimeout = 30 * time.Minute

// sessionTimeout returns session.timeout, which is in minutes.
func (st *state) sessionTimeout() time.Duration {
	if n := atoi(st.setting("session.timeout")); n > 0 {
		return time.Duration(n) * time.Minute
	}
	return sessionTimeout
}

// session is a logged-in session.
type session struct {
	id, key string
	user    *user
	used    time.Time
}

// sessions are the active sessions by JSESSIONID.
type sessions struct {
	mu   sync.Mutex
	byID map[string]*session
}

func newSessions() *sessions { return &sessions{byID: map[string]*session{}} }

func (s *sessions) start(u *user, now time.Time) *session {
	ses := &session{id: randomKey(18), key: randomKey(20), user: u, used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[ses.id] = ses
	return ses
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// of returns the session of a request's cookie, if it has not expired.
func (s *sessions) of(r *http.Request, now time.Time, timeout time.Duration) *session {
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
		delete(s.byID, ses.id)
		return nil
	}
	ses.used = now
	return ses
}

// keyMatches requires the session key as a parameter and as a cookie, like the default of
// api.sessionkey.check.locations.
func (ses *session) keyMatches(r *http.Request, sent string) bool {
	cookie, err := r.Cookie("sessionkey")
	if err != nil {
		return false
	}
	same := func(a string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(ses.key)) == 1 }
	return same(sent) && same(cookie.Value)
}

// randomKey returns n random bytes as URL-safe text.
func randomKey(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

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

// loginPath returns the path below ROOT of the login's domain, with a slash at both ends. Unlike in the paths of
// listDomains, a leading ROOT is here the name of a domain below ROOT.
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
func (s *Simulator) login(w http.ResponseWriter, req *request, now time.Time) (any, *apiError) {
	if !req.post {
		return nil, &apiError{status: http.StatusMethodNotAllowed, text: "Please use HTTP POST to authenticate using this API", plain: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	path := loginPath(req.values["domain"])
	dom, found := st.domains.find(func(d *domain) bool { return strings.EqualFold(d.path(), path) })
	if id, ok := req.values["domainid"]; ok {
		if dom, found = st.domains.get(id); !found {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return nil, &apiError{status: http.StatusUnauthorized, text: "Invalid domain id entered, please enter a valid one"}
			}
			dom, found = st.domains.byID(n)
		}
	}
	name := req.values["username"]
	refuse := func(id string) *apiError {
		return &apiError{status: codeAccount, text: "Failed to authenticate user " + name + " in domain " + id + "; please provide valid credentials"}
	}
	if !found {
		return nil, &apiError{status: codeAccount, text: "Unable to find the domain from the path " + path}
	}
	u, ok := st.userIn(dom, name)
	if !ok || !st.passwordFits(u, req.values["password"]) {
		return nil, refuse(strconv.FormatInt(dom.id, 10))
	}
	if u.state != stateEnabled || u.account.state != stateEnabled {
		return nil, &apiError{
			status: codeAccount, text: fmt.Sprintf("User %s (or their account) in domain %s is disabled/locked. Please contact the administrator.", u.text(), dom.text()),
		}
	}
	u.failures = 0
	st.addEvent(&event{
		entity: entity{created: now}, kind: "USER.LOGIN", state: eventCompleted, text: "user has logged in from IP Address /127.0.0.1", owner: u.account, user: u,
		resource: resource{"User", u.uuid, u.username},
	})
	ses := s.sessions.start(u, now)
	for k, v := range map[string]string{"JSESSIONID": ses.id, "sessionkey": ses.key} {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // like CloudStack, which sets Secure only on HTTPS; the simulator serves HTTP
			Name: k, Value: v, Path: "/client", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	view := loginView{
		Username: u.username, UserID: u.uuid, DomainID: u.account.domain.uuid, Timeout: int(st.sessionTimeout().Seconds()),
		Account: u.account.name, FirstName: u.firstName, LastName: u.lastName, Type: strconv.Itoa(u.account.typ()),
		Registered: "false", SessionKey: ses.key, Is2FAEnabled: "false", Is2FAVerified: "true", IssuerFor2FA: st.setting("2fa.issuer"),
	}
	if u.timezone != "" {
		view.Timezone, view.TimezoneOffset = u.timezone, "0.0"
	}
	if u.account.rootAdmin() {
		view.ManagementID = st.msID
	}
	return view, nil
}

// passwordFits reports whether the password is correct. Too many wrong passwords in a row disable the user, except
// for users of root admin accounts.
func (st *state) passwordFits(u *user, password string) bool {
	if u.password != "" && subtle.ConstantTimeCompare([]byte(u.password), []byte(password)) == 1 {
		return true
	}
	most := atoi(st.setting("incorrect.login.attempts.allowed"))
	if u.failures++; u.state == stateEnabled && most > 0 && u.failures >= most && !u.account.rootAdmin() {
		u.state = stateDisabled
	}
	return false
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}
