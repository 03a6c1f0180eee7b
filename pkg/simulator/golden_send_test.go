// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// reply is what the simulator answered.
type reply struct {
	status      int
	contentType string
	body        any
}

// sessionState is the login that the session cases work with.
type sessionState struct {
	cookies []*http.Cookie
	key     string
}

// goldenUsers maps recorded callers to users.
var goldenUsers = map[string]string{
	"kubeadmin": "k8s/kubeadmin", "otheruser": "k8s/otheruser", "domainadmin": "k8s/dom258623", "admin": "admin",
	"customrole": "k8s/ccm257833", "seconduser": "k8s/second257833", "other": "k8s/kubeadmin",
}

func (r *replayer) keysOf(c *goldenCase) (string, string) {
	if k, ok := r.keys[c.Case]; ok {
		return k[0], k[1]
	}
	key, secret, ok := r.h.sim.Keys(goldenUsers[c.Caller])
	if !ok { // its keys were registered by a call that is not recorded
		key, secret = "no-such-key", "no-such-secret"
	}
	return key, secret
}

// send replays the request of a case.
func (r *replayer) send(c *goldenCase) reply {
	if c.Command == "raw" {
		return r.raw(c)
	}
	q := url.Values{"command": {c.Command}, "response": {"json"}}
	for k, v := range c.Params {
		q.Set(k, fmt.Sprint(v))
	}
	r.secrets(c, q)
	if c.Caller == "session" {
		return r.sendSession(c, q)
	}
	key, secret := r.keysOf(c)
	q.Set("apikey", key)
	var signature string
	switch {
	case c.Case == "auth.empty-apikey":
		q.Set("apikey", "")
	case strings.HasPrefix(c.Case, "auth.v3-"):
		q.Set("signatureversion", "3")
		q.Set("expires", expiresOf(c.Case, r.h.clock.Now()))
	case c.Case == "auth.v4":
		q.Set("signatureversion", "4")
	case strings.HasPrefix(c.Case, "postonly.") && !strings.HasSuffix(c.Case, "without-timestamp"):
		q.Set("signatureversion", "3")
		ahead := 10 * time.Minute
		if strings.HasSuffix(c.Case, "too-far") {
			ahead = time.Hour
		}
		q.Set("expires", r.h.clock.Now().Add(ahead).UTC().Format("2006-01-02T15:04:05-0700"))
	}
	switch {
	case c.Case == "auth.bad-signature":
		signature = "AAAAAAAAAAAAAAAAAAAAAAAAAAA="
	case strings.HasPrefix(c.Case, "auth.sigchar-go-"):
		signature = goSignature(secret, q)
	default:
		signature = sign(secret, toParams(q))
	}
	q.Set("signature", signature)
	post := strings.HasSuffix(c.Case, ".post") || strings.HasPrefix(c.Case, "postonly.post")
	return r.do(post, r.h.url, q, nil)
}

// secrets fills in what the recordings have redacted.
func (r *replayer) secrets(c *goldenCase, q url.Values) {
	if q.Has("password") {
		q.Set("password", "password")
		switch c.Case {
		case "createUser.short-password":
			q.Set("password", "")
		case "login.bad-password":
			q.Set("password", "wrong")
		}
	}
	if q.Has("userapikey") {
		key, _, _ := r.h.sim.Keys("k8s/kubeadmin")
		if c.Case == "getUser.admin-unknown" {
			key = "unknown"
		}
		q.Set("userapikey", key)
	}
}

func expiresOf(name string, now time.Time) string {
	switch strings.TrimPrefix(name, "auth.v3-") {
	case "expired":
		return now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05-0700")
	case "bad-expires":
		return "tomorrow"
	case "expires-Z":
		return now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05Z")
	case "expires-far-future":
		return now.AddDate(10, 0, 0).UTC().Format("2006-01-02T15:04:05-0700")
	}
	return now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05-0700")
}

// goSignature signs with Go's way of escaping, which treats ~ and * differently.
func goSignature(secret string, q url.Values) string {
	var ps []param
	for k, v := range q {
		ps = append(ps, param{k, v[0]})
	}
	text := stringToSign(ps)
	text = strings.ReplaceAll(strings.ReplaceAll(text, "%7e", "~"), "*", "%2a")
	return hmacOf(secret, text)
}

func (r *replayer) raw(c *goldenCase) reply {
	query := fmt.Sprint(c.Params["query"])
	if strings.HasPrefix(query, "http") {
		return r.do(false, strings.TrimSuffix(r.h.url, "/api"), nil, nil)
	}
	key, _ := r.keysOf(c)
	target := r.h.url
	if c.Case == "auth.wrong-path" {
		target += "x"
	}
	q, err := url.ParseQuery(strings.ReplaceAll(query, "REDACTED", key))
	require.NoError(r.t, err)
	return r.do(false, target, q, nil)
}

func (r *replayer) sendSession(c *goldenCase, q url.Values) reply {
	if q.Has("sessionkey") {
		q.Set("sessionkey", r.session.key)
	}
	cookies := r.session.cookies
	if c.Command == "login" {
		cookies = nil
	}
	return r.do(c.Command == "login" && c.Case != "login.by-get", r.h.url, q, cookies)
}

func (r *replayer) do(post bool, target string, q url.Values, cookies []*http.Cookie) reply {
	method, body := http.MethodGet, io.Reader(nil)
	if post {
		method, body = http.MethodPost, strings.NewReader(q.Encode())
	} else if q != nil {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, target, body)
	require.NoError(r.t, err)
	if post {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, ck := range cookies {
		req.AddCookie(ck)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, resp.Body.Close())
	out := reply{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type"), body: string(raw)}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if strings.HasPrefix(out.contentType, "application/json") && d.Decode(&v) == nil {
		out.body = v
	}
	if len(resp.Cookies()) > 0 {
		r.session.cookies = resp.Cookies()
		for _, ck := range resp.Cookies() {
			if ck.Name == "sessionkey" {
				r.session.key = ck.Value
			}
		}
	}
	return out
}

// preparations bring about what calls outside the recordings did.
var preparations = map[string]func(*replayer){
	"registerUserKeys.other-user": func(r *replayer) { r.giveKeys("second257833") },
	"getUserKeys.other":           func(r *replayer) { r.giveKeys("second257833") },
	"auth.old-key-after-reregister": func(r *replayer) {
		r.keys["auth.old-key-after-reregister"] = r.oldKeys
	},
	"auth.disabled-user": func(r *replayer) { r.userState("second257833", stateDisabled) },
	"updateUser.apikeyaccess-disabled": func(r *replayer) {
		r.userState("second257833", stateEnabled)
	},
	"auth.locked-user":                        func(r *replayer) { r.userState("second257833", stateLocked) },
	"associateIpAddress.pool-exhausted":       func(r *replayer) { r.exhaust(true) },
	"concurrent.create-same-port-0":           func(r *replayer) { r.exhaust(false) },
	"throttle.exceeded":                       func(r *replayer) { r.throttle(1) },
	"inject.assign-backend-fails":             func(r *replayer) { r.throttle(0) },
	"smallpage.listVirtualMachines.no-paging": func(r *replayer) { r.h.sim.st.settings.DefaultPageSize = 3 },
	"customjobid.associate-first":             func(r *replayer) { r.h.sim.st.settings.DefaultPageSize = 0 },
	"postonly.get-without-timestamp":          func(r *replayer) { r.h.sim.st.settings.EnforcePost = true },
	"smallpage.listCapabilities":              func(r *replayer) { r.h.sim.st.settings.EnforcePost = false },
	"login.session-call": func(r *replayer) {
		r.do(true, r.h.url, url.Values{"command": {"login"}, "username": {"admin"}, "password": {"password"}, "response": {"json"}}, nil)
	},
}

func init() {
	preparations["smallpage.listVirtualMachines.no-paging"] = func(r *replayer) {
		r.h.sim.st.settings.EnforcePost = false
		r.h.sim.st.settings.DefaultPageSize = 3
	}
	delete(preparations, "smallpage.listCapabilities")
	for name, text := range map[string]Fault{
		"inject.assign-backend-fails":             {Command: "assignToLoadBalancerRule"},
		"inject.assign-backend-faults":            {Command: "assignToLoadBalancerRule"},
		"inject.createFirewallRule-backend-fails": {Command: "createFirewallRule"},
		"inject.deleteFirewallRule-backend-fails": {Command: "deleteFirewallRule"},
		"inject.update-backend-fails":             {Command: "updateLoadBalancerRule"},
		"inject.remove-backend-fails":             {Command: "removeFromLoadBalancerRule"},
		"inject.delete-backend-fails":             {Command: "deleteLoadBalancerRule"},
	} {
		before := preparations[name]
		preparations[name] = func(r *replayer) {
			if before != nil {
				before(r)
			}
			text.Nth, text.Kind = 1, FaultRouterRefuses
			r.h.sim.Inject(text)
		}
	}
}

func (r *replayer) user(name string) *user {
	u, ok := r.h.sim.st.users.find(func(u *user) bool { return u.username == name })
	require.True(r.t, ok, name)
	return u
}

func (r *replayer) giveKeys(name string) {
	u := r.user(name)
	if u.apiKey == "" {
		u.apiKey, u.secretKey = newKeys()
		r.h.sim.st.apiKeys[u.apiKey] = u
	}
	r.oldKeys = [2]string{u.apiKey, u.secretKey}
}

func (r *replayer) userState(name, state string) { r.user(name).state = state }

func (r *replayer) throttle(limit int) {
	r.h.sim.st.settings.ThrottleMax, r.h.sim.st.settings.ThrottleIntervalSeconds = limit, 3600
	if limit > 0 { // use the account's one call up
		r.h.call("k8s/kubeadmin", "listRegions")
	}
}

// exhaust takes or gives back every free address.
func (r *replayer) exhaust(take bool) {
	for _, ip := range r.h.sim.st.ips.rows {
		switch {
		case take && ip.state == ipFree:
			ip.state = "Exhausted"
		case !take && ip.state == "Exhausted":
			ip.state = ipFree
		}
	}
}

// skipReason names the cases that cannot be replayed.
func skipReason(c *goldenCase) string {
	name := c.Case
	for prefix, why := range map[string]string{
		"restart.":                                   "the management server was killed in between",
		"inject.ipassoc-fails":                       "needs a router that fails when the address is set up",
		"inject.vpc-ipassoc-fails":                   "needs a router that fails when the address is set up",
		"inject.createLoadBalancerRule-on-releasing": "needs a router that fails while the address is released",
		"concurrent.assign-same-vm":                  "the outcome depends on which of several calls at once came first",
		"concurrent.update-while-assign":             "the outcome depends on which of several calls at once came first",
		"concurrent.stop-start":                      "the outcome depends on which of several calls at once came first",
	} {
		if strings.HasPrefix(name, prefix) {
			return why
		}
	}
	return ""
}
