// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
)

// contentPolicy lets the page load its own files and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// door authenticates requests. Every program on the machine and every page in the user's browser can reach a port on
// 127.0.0.1. Pages of other origins can send requests, and with a name that resolves to 127.0.0.1 (DNS rebinding) they
// can also read the answers.
type door struct {
	origin, localhost string // both are the page's own: "http://127.0.0.1:PORT"
	hosts             []string
	// path is a random prefix of all URLs. Cookies do not distinguish ports: without a path that only this server
	// knows, the browser would send the cookie to other servers on 127.0.0.1, too.
	path           string
	token, session string
	used           atomic.Bool
}

func newDoor(port string) *door {
	return &door{
		origin: "http://127.0.0.1:" + port, localhost: "http://localhost:" + port,
		hosts: []string{"127.0.0.1:" + port, "localhost:" + port},
		path:  "/" + secret(), token: secret(), session: secret(),
	}
}

// cookie is the name of the session's cookie.
const cookie = "csccm-ui"

// url is the address of the page with the token.
func (d *door) url() string { return d.origin + d.path + "/?token=" + d.token }

// secret returns 256 random bits as text.
func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// guard returns a handler that sets the security headers, checks the request, and calls next if it is allowed.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if r.Host != d.hosts[0] && r.Host != d.hosts[1] {
			refuse(w, "this page is at "+d.origin+" only")
			return
		}

		inside, known := strings.CutPrefix(r.URL.Path, d.path)
		r.URL.Path, r.URL.RawPath = inside, strings.TrimPrefix(r.URL.RawPath, d.path)
		if known && r.Method == http.MethodGet && inside == "/" && r.URL.Query().Has("token") {
			d.enter(w, r)
			return
		}

		switch {
		case !known || !d.invited(r):
			refuse(w,
				"the address that was printed at the start is valid once; start the command again for another browser")
		case !d.ownPage(r):
			refuse(w, "another page sent this request")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, why string) {
	http.Error(w, "Forbidden: "+why, http.StatusForbidden)
}

// invited reports whether the request has the session's cookie.
func (d *door) invited(r *http.Request) bool {
	c, err := r.Cookie(cookie)
	return err == nil && same(c.Value, d.session)
}

// enter exchanges the token for the session's cookie. The redirect removes the token from the address bar. The token
// is valid once, but the browser that has the cookie may reload the address.
func (d *door) enter(w http.ResponseWriter, r *http.Request) {
	if !d.invited(r) {
		if !same(r.URL.Query().Get("token"), d.token) || !d.used.CompareAndSwap(false, true) {
			refuse(w, "the token is wrong or was used before; start the command again for another browser")
			return
		}
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure: there is no TLS on 127.0.0.1
			Name: cookie, Value: d.session, Path: d.path + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	}

	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		// Do not redirect here: the request comes from a link on another page or in a file. The browser treats a
		// redirect as part of that page's request and does not send the cookie (SameSite=Strict). It sends the cookie
		// when this page opens the other one.
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w,
			`<!doctype html><meta http-equiv="refresh" content="0; url=./"><title>csccm</title><a href="./">Open the page</a>`)
		return
	}

	http.Redirect(w, r, d.path+"/", http.StatusSeeOther)
}

// ownPage reports whether the request comes from the page itself, or from the user who opens the page. Browsers tell
// by headers that pages cannot set. A program that sends neither header is accepted: it has the cookie.
func (d *door) ownPage(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if origin != "" && origin != "http://"+r.Host {
		return false
	}
	switch {
	case site == "same-origin":
		return true
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		// Requests that change something need proof: browsers send Origin with every POST.
		return site == "" && origin != "" && isJSON(r)
	case site == "none": // the user typed the address, or reloads
		return r.URL.Path == "/"
	}
	return site == ""
}

// isJSON reports whether the body is JSON. A form of another page cannot send that type without a CORS preflight.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
