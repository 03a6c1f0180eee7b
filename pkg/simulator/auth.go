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
)

// identify authenticates the caller and runs the checks that precede the parameter checks, in CloudStack's order. The
// caller holds s.mu for reading.
func (s *Simulator) identify(c *call, r *http.Request, integration bool) *apiError {
	if c.api == nil || s.st.registered(c.api) {
		return s.identifyCaller(c, r, integration)
	}
	c.api = nil // handled like a command that does not exist
	err := s.identifyCaller(c, r, integration)
	if err != nil && err.key == "" {
		err.key = "errorresponse"
	}
	return err
}

func (s *Simulator) identifyCaller(c *call, r *http.Request, integration bool) *apiError {
	switch {
	case integration:
		return s.identifyIntegration(c)
	case c.req.values["signature"] == "" && c.req.values["apikey"] == "":
		if ses := s.sessions.of(r, c.now, s.st.sessionTimeout()); ses != nil {
			return s.identifySession(c, r, ses)
		}
		return unauthorized()
	}
	return s.identifyKey(c)
}

func (s *Simulator) identifyIntegration(c *call) *apiError {
	sys, ok := s.st.users.find(func(u *user) bool { return u.account.rootAdmin() && !u.account.system() })
	if !ok {
		return unauthorized()
	}
	c.caller = caller{user: sys, account: sys.account}
	if c.req.command == "" {
		e := errf(codeUnsupported, csGeneric, "Invalid request, no command sent")
		e.key = "errorresponse"
		return e
	}
	if c.api == nil {
		return unknownCommand(c.req.command)
	}
	return nil
}

func (s *Simulator) identifySession(c *call, r *http.Request, ses *session) *apiError {
	if !ses.keyMatches(r, c.req.values["sessionkey"]) {
		s.sessions.end(ses.id)
		return &apiError{status: http.StatusUnauthorized, text: sessionText}
	}
	u := ses.user
	if u.removed || u.state != stateEnabled || u.account.state != stateEnabled {
		s.sessions.end(ses.id)
		return &apiError{status: http.StatusUnauthorized, text: sessionText}
	}
	c.caller, c.session = caller{user: u, account: u.account}, ses
	if c.req.command == "" {
		return &apiError{status: http.StatusBadRequest, text: "no command specified", key: "null"}
	}
	if c.api == nil {
		return unknownCommand(c.req.command)
	}
	if c.req.command == "logout" {
		return nil
	}
	if err := s.admit(c); err != nil {
		return err
	}
	return c.checkAvailable()
}

func (s *Simulator) identifyKey(c *call) *apiError {
	v := c.req.values
	if c.req.command == "" || c.api == nil || v["signature"] == "" || v["apikey"] == "" {
		return unauthorized()
	}
	if !fresh(v["signatureversion"], v["expires"], c.now) {
		return unauthorized()
	}
	if s.st.settings.EnforcePost {
		if err := enforcePost(c); err != nil {
			return err
		}
	}
	u := s.st.apiKeys[v["apikey"]]
	if u == nil || u.removed || u.state != stateEnabled || u.account.removed || u.account.state != stateEnabled || !s.st.keysAllowed(u) {
		return unauthorized()
	}
	c.caller = caller{user: u, account: u.account, byKey: true}
	if err := s.admit(c); err != nil {
		return err
	}
	if err := c.checkAvailable(); err != nil {
		return err
	}
	if !signatureMatches(u.secretKey, c.req.raw, v["signature"]) {
		return unauthorized()
	}
	return nil
}

// maxAhead is the latest allowed expiry, counted from now, under enforce.post.requests.and.timestamps.
const maxAhead = 15 * time.Minute

// readPrefixes are the command name prefixes that may be sent by GET under enforce.post.requests.and.timestamps.
var readPrefixes = []string{"get", "list", "query", "find"}

// enforcePost applies enforce.post.requests.and.timestamps: it requires signature version 3, an expiry within
// maxAhead, and POST for every command that changes state.
func enforcePost(c *call) *apiError {
	v := c.req.values
	if v["signatureversion"] != "3" || fresh("3", v["expires"], c.now.Add(maxAhead)) {
		return unauthorized()
	}
	reads := slices.ContainsFunc(readPrefixes, func(p string) bool { return strings.HasPrefix(c.req.command, p) })
	if !reads && !c.req.post {
		return errf(http.StatusBadRequest, csGeneric, "State changing command %s needs to be sent using POST request", c.req.command)
	}
	return nil
}

func (s *Simulator) admit(c *call) *apiError {
	set := s.st.settings
	return s.throttle.admit(c.caller.account, set.ThrottleMax, set.throttleInterval(), c.now)
}

func unknownCommand(name string) *apiError {
	e := errf(codeUnsupported, csGeneric, "Unknown API command: %s", name)
	e.key = "errorresponse"
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
	_, _ = fmt.Fprintf(w, "<html>\n<head>\n<meta http-equiv=\"Content-Type\" content=\"text/html;charset=ISO-8859-1\"/>\n"+
		"<title>Error %d %s</title>\n</head>\n<body><h2>HTTP ERROR %d %s</h2>\n<table>\n<tr><th>URI:</th><td>%s</td></tr>\n"+
		"<tr><th>STATUS:</th><td>%d</td></tr>\n<tr><th>MESSAGE:</th><td>%s</td></tr>\n</table>\n\n</body>\n</html>\n",
		status, html.EscapeString(text), status, html.EscapeString(text), html.EscapeString(uri), status, html.EscapeString(text))
}
