// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Cookie is HAProxy's directive cookie: a client keeps its member by a cookie of the balancer.
type Cookie struct {
	Name   string
	Mode   string // CookieInsert, CookieRewrite, CookiePrefix, or empty: the cookie is read only
	Domain string // "; domain=" between several
	// Indirect hides the cookie from members, NoCache marks answers that set it, PostOnly sets it in answers to POST only.
	Indirect, NoCache, PostOnly bool
}

// The modes of a cookie.
const (
	CookieInsert  = "insert"  // the balancer adds its own cookie to answers
	CookieRewrite = "rewrite" // the member's cookie gets the balancer's value
	CookiePrefix  = "prefix"  // the member's cookie gets the balancer's value before its own
)

// prefixEnd parts the balancer's value from the member's in the mode prefix.
const prefixEnd = "~"

// cookieFlags count when they are there: CloudStack does not look at their values.
var cookieFlags = []string{"indirect", "nocache", "postonly"}

// parseCookie reads a policy's parameters by way of the line that CloudStack makes
// of them, so that what breaks that line is refused as HAProxy refuses it.
func parseCookie(params map[string]string, public netip.AddrPort) (*Cookie, error) {
	name, mode, rest := fmt.Sprintf("lbcooki_%d_%d", javaHash(public.Addr().String()), public.Port()), CookieInsert, []string(nil)
	for k, v := range params {
		switch k = strings.ToLower(k); {
		case k == "cookie-name":
			name = v
		case k == "mode":
			mode = v
		case k == "domain":
			rest = append(rest, "domain "+v)
		case slices.Contains(cookieFlags, k):
			rest = append(rest, k)
		}
	}
	words := strings.Fields(name + " " + mode + " " + strings.Join(rest, " "))
	if len(words) == 0 {
		return nil, errors.New("stickiness LbCookie without a name of the cookie")
	}
	c := &Cookie{Name: words[0]}
	for i := 1; i < len(words); i++ {
		switch w := words[i]; w {
		case CookieInsert, CookieRewrite, CookiePrefix:
			if c.Mode != "" && c.Mode != w {
				return nil, fmt.Errorf("stickiness LbCookie: HAProxy takes one of the modes %s and %s", c.Mode, w)
			}
			c.Mode = w
		case "indirect":
			c.Indirect = true
		case "nocache":
			c.NoCache = true
		case "postonly":
			c.PostOnly = true
		case "domain":
			if i++; i == len(words) {
				return nil, errors.New("stickiness LbCookie: HAProxy wants a name after domain")
			}
			c.Domain = strings.Join(slices.DeleteFunc([]string{c.Domain, words[i]}, func(s string) bool { return s == "" }), "; domain=")
		default:
			return nil, fmt.Errorf("stickiness LbCookie %q: HAProxy has the modes insert, rewrite and prefix, and no such word", w)
		}
	}
	if c.Mode == CookieRewrite && c.Indirect {
		return nil, errors.New("stickiness LbCookie: HAProxy does not take indirect with the mode rewrite")
	}
	return c, nil
}

// javaHash is the hash of a text that CloudStack makes the default name of.
func javaHash(s string) int32 {
	var h int32
	for _, c := range []byte(s) { // of an address: ASCII
		h = 31*h + int32(c)
	}
	return h
}

// cookieValue is what stands for a member in a cookie.
func cookieValue(member netip.AddrPort) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(member.Addr().String(), ".", "_"), member.Port())
}

// dateEnd parts the balancer's value from dates, which other balancers add to it.
const dateEnd = "|"

// ask reads which members a client's request asks for, by the values that stand for
// them, and takes out of the request what members do not see.
func (c *Cookie) ask(h http.Header) (asked []string) {
	var lines []string
	for _, line := range h["Cookie"] {
		var kept []string
		for _, part := range strings.Split(line, ";") {
			name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
			if !ok || name != c.Name {
				kept = append(kept, part)
				continue
			}
			member, _, _ := strings.Cut(value, dateEnd)
			if c.Mode == CookiePrefix {
				var own string
				var found bool
				if member, own, found = strings.Cut(value, prefixEnd); found {
					part = " " + name + "=" + own
				}
			}
			if member != "" {
				asked = append(asked, member)
			}
			if c.Mode != CookieInsert || !c.Indirect {
				kept = append(kept, part)
			}
		}
		if len(kept) > 0 {
			lines = append(lines, strings.TrimSpace(strings.Join(kept, ";")))
		}
	}
	if lines == nil {
		delete(h, "Cookie")
	} else {
		h["Cookie"] = lines
	}
	return asked
}

// answer puts the member into an answer. Direct says that the request asked for this very member.
func (c *Cookie) answer(resp *http.Response, method string, member netip.AddrPort, direct bool) {
	value := cookieValue(member)
	var lines []string
	for _, line := range resp.Header["Set-Cookie"] {
		name, rest, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(name) != c.Name {
			lines = append(lines, line)
			continue
		}
		own, attributes, more := strings.Cut(rest, ";")
		if more {
			attributes = ";" + attributes
		}
		switch c.Mode {
		case CookieInsert: // its own takes the place
		case CookieRewrite:
			lines = append(lines, c.Name+"="+value+attributes)
		case CookiePrefix:
			lines = append(lines, c.Name+"="+value+prefixEnd+strings.TrimSpace(own)+attributes)
		default:
			if !c.Indirect || !direct {
				lines = append(lines, line)
			}
		}
	}
	if c.Mode == CookieInsert && !direct && (!c.PostOnly || method == http.MethodPost) {
		line := c.Name + "=" + value + "; path=/"
		if c.Domain != "" {
			line += "; domain=" + c.Domain
		}
		lines = append(lines, line)
		if c.NoCache && cacheable(resp, method) {
			resp.Header.Add("Cache-Control", "private")
		}
	}
	if lines == nil {
		delete(resp.Header, "Set-Cookie")
	} else {
		resp.Header["Set-Cookie"] = lines
	}
}

// cacheableStatus are those that caches may keep without being told.
var cacheableStatus = []int{200, 203, 204, 206, 300, 301, 404, 405, 410, 414, 501}

// cacheable tells whether HAProxy takes an answer for one that a cache may keep.
func cacheable(resp *http.Response, method string) bool {
	if strings.EqualFold(resp.Header.Get("Pragma"), "no-cache") {
		return false
	}
	may := method != http.MethodPost && slices.Contains(cacheableStatus, resp.StatusCode)
	for _, line := range resp.Header["Cache-Control"] {
		for _, word := range strings.Split(line, ",") {
			switch strings.ToLower(strings.TrimSpace(word)) {
			case "public":
				may = true
			case "private", "no-cache", "no-store", "max-age=0", "s-maxage=0":
				may = false
			}
		}
	}
	return may
}
