// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// identify authenticates the caller and runs the checks that precede the parameter checks, in CloudStack's order. The
// caller holds s.mu for reading.
func (s *Simulator) identify(c *wire.Call, r *http.Request, integration bool) *wire.Error {
	if c.API == nil || s.st.Registered(c.API) {
		return s.identifyCaller(c, r, integration)
	}
	c.API = nil // handle it like a command that does not exist
	err := s.identifyCaller(c, r, integration)
	if err != nil && err.Key == "" {
		err.Key = "errorresponse"
	}
	return err
}

func (s *Simulator) identifyCaller(c *wire.Call, r *http.Request, integration bool) *wire.Error {
	switch {
	case integration:
		return s.identifyIntegration(c)
	case c.Req.Values["signature"] == "" && c.Req.Values["apikey"] == "":
		if ses := s.server.Sessions.Of(r, c.Now, wire.SessionTimeout(s.st)); ses != nil {
			return s.identifySession(c, r, ses)
		}
		return wire.Unauthorized()
	}
	return s.identifyKey(c)
}

func (s *Simulator) identifyIntegration(c *wire.Call) *wire.Error {
	sys, ok := s.st.Users.Find(func(u *store.User) bool { return u.Account.RootAdmin() && !u.Account.System() })
	if !ok {
		return wire.Unauthorized()
	}
	c.Caller = store.Caller{User: sys, Account: sys.Account}
	if c.Req.Command == "" {
		e := wire.Errf(wire.CodeUnsupported, wire.CSGeneric, "Invalid request, no command sent")
		e.Key = "errorresponse"
		return e
	}
	if c.API == nil {
		return unknownCommand(c.Req.Command)
	}
	return nil
}

func (s *Simulator) identifySession(c *wire.Call, r *http.Request, ses *wire.Session) *wire.Error {
	if !ses.KeyMatches(r, c.Req.Values["sessionkey"]) {
		s.server.Sessions.End(ses.ID)
		return &wire.Error{Status: http.StatusUnauthorized, Text: wire.SessionText}
	}

	u := ses.User
	if u.Removed || u.State != store.StateEnabled || u.Account.State != store.StateEnabled {
		s.server.Sessions.End(ses.ID)
		return &wire.Error{Status: http.StatusUnauthorized, Text: wire.SessionText}
	}

	c.Caller, c.Session = store.Caller{User: u, Account: u.Account}, ses
	if c.Req.Command == "" {
		return &wire.Error{Status: http.StatusBadRequest, Text: "no command specified", Key: "null"}
	}

	if c.API == nil {
		return unknownCommand(c.Req.Command)
	}

	if c.Req.Command == "logout" {
		return nil
	}

	if err := s.admit(c); err != nil {
		return err
	}

	return checkAvailable(c)
}

func (s *Simulator) identifyKey(c *wire.Call) *wire.Error {
	v := c.Req.Values
	if c.Req.Command == "" || c.API == nil || v["signature"] == "" || v["apikey"] == "" {
		return wire.Unauthorized()
	}

	if !wire.Fresh(v["signatureversion"], v["expires"], c.Now) {
		return wire.Unauthorized()
	}

	if s.st.BoolSetting("enforce.post.requests.and.timestamps") {
		if err := enforcePost(c); err != nil {
			return err
		}
	}

	u := s.st.APIKeys[v["apikey"]]
	if u == nil ||
		u.Removed ||
		u.State != store.StateEnabled ||
		u.Account.Removed ||
		u.Account.State != store.StateEnabled {
		return wire.Unauthorized()
	}

	c.Caller = store.Caller{User: u, Account: u.Account, ByKey: true}
	if err := s.admit(c); err != nil {
		return err
	}

	if err := checkAvailable(c); err != nil {
		return err
	}

	if !wire.SignatureMatches(u.SecretKey, c.Req.Raw, v["signature"]) {
		return wire.Unauthorized()
	}

	return nil
}

// maxAhead is the latest allowed expiry, counted from now, under enforce.post.requests.and.timestamps.
const maxAhead = 15 * time.Minute

// readPrefixes are the command name prefixes that may be sent by GET under enforce.post.requests.and.timestamps.
var readPrefixes = []string{"get", "list", "query", "find"}

// enforcePost applies enforce.post.requests.and.timestamps: it requires signature version 3, an expiry within
// maxAhead, and POST for every command that changes state.
func enforcePost(c *wire.Call) *wire.Error {
	v := c.Req.Values
	if v["signatureversion"] != "3" || wire.Fresh("3", v["expires"], c.Now.Add(maxAhead)) {
		return wire.Unauthorized()
	}
	reads := slices.ContainsFunc(readPrefixes, func(p string) bool { return strings.HasPrefix(c.Req.Command, p) })
	if !reads && !c.Req.Post {
		return wire.Errf(http.StatusBadRequest, wire.CSGeneric,
			"State changing command %s needs to be sent using POST request", c.Req.Command)
	}
	return nil
}

func (s *Simulator) admit(c *wire.Call) *wire.Error {
	limit, interval := s.st.Throttling()
	return s.server.Throttle.Admit(c.Caller.Account, limit, interval, c.Now)
}

func unknownCommand(name string) *wire.Error {
	e := wire.Errf(wire.CodeUnsupported, wire.CSGeneric, "Unknown API command: %s", name)
	e.Key = "errorresponse"
	return e
}

// notFoundPage is Jetty's response for paths that the server does not serve.
func notFoundPage(w http.ResponseWriter, r *http.Request) {
	htmlPage(w, http.StatusNotFound, "Not Found", r.URL.Path)
}

func htmlError(w http.ResponseWriter, status int, text string) { htmlPage(w, status, text, "") }

func htmlPage(w http.ResponseWriter, status int, text, uri string) {
	w.Header().Set("Content-Type", "text/html;charset=iso-8859-1")
	w.WriteHeader(status)
	//nolint:gosec // all values are escaped
	_, _ = fmt.Fprintf(w,
		"<html>\n<head>\n<meta http-equiv=\"Content-Type\" content=\"text/html;charset=ISO-8859-1\"/>\n"+
			"<title>Error %d %s</title>\n</head>\n<body><h2>HTTP ERROR %d %s</h2>\n"+
			"<table>\n<tr><th>URI:</th><td>%s</td></tr>\n<tr><th>STATUS:</th><td>%d</td></tr>\n"+
			"<tr><th>MESSAGE:</th><td>%s</td></tr>\n</table>\n\n</body>\n</html>\n",
		status, html.EscapeString(text), status, html.EscapeString(text), html.EscapeString(uri), status,
		html.EscapeString(text))
}

// checkAvailable checks that the caller's role allows the command (error 432). It precedes all checks of parameters.
func checkAvailable(c *wire.Call) *wire.Error {
	if !c.Caller.Account.Role.Allows(c.API) {
		// The id in the text is random and different in every answer.
		e := wire.Errf(wire.CodeUnsupported, wire.CSGeneric,
			"The API [%s] does not exist or is not available for the account for user id [%s].",
			c.API.Name, uuid.NewString())
		e.Key = "errorresponse"
		return e
	}
	return checkProject(c)
}

// checkProject refuses callers who are not members of the project of the call. The parameter name is case-sensitive.
func checkProject(c *wire.Call) *wire.Error {
	name := "projectid"
	if c.API.Name == "deleteProject" {
		name = "id"
	}

	id, ok := c.Req.AsSent(name)
	if !ok || c.Caller.RootAdmin() {
		return nil
	}

	p, ok := c.St.Projects.Get(id)
	if !ok || p.Removed || !c.Caller.Account.Normal() {
		return nil
	}

	if p.Admits(c.Caller) {
		return nil
	}

	e := wire.Errf(wire.CodeUnsupported, wire.CSGeneric,
		"The API [%s] does not exist or is not available for this account/user in project [%s].", c.API.Name, p.UUID)
	e.Key = "errorresponse"
	return e
}
