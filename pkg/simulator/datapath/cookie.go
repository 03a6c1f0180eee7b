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

// Cookie is HAProxy's cookie directive: a cookie of the load balancer selects the member of a client.
type Cookie struct {
	Name   string
	Mode   string // CookieInsert, CookieRewrite, CookiePrefix; empty: the cookie is only read
	Domain string // several domains are joined by "; domain="
	// Indirect hides the cookie from members, NoCache marks answers that set it, PostOnly sets it only in answers to
	// POST.
	Indirect, NoCache, PostOnly bool
}

// The modes of a cookie.
const (
	CookieInsert  = "insert"  // the load balancer adds its own cookie to answers
	CookieRewrite = "rewrite" // the load balancer replaces the value of the member's cookie
	CookiePrefix  = "prefix"  // the load balancer adds its value as a prefix to that of the member's cookie
)

// prefixEnd separates the load balancer's value from the member's value in mode prefix.
const prefixEnd = "~"

// cookieFlags are the parameters that are true if they are set: CloudStack ignores their values.
var cookieFlags = []string{"indirect", "nocache", "postonly"}

// parseCookie converts a policy's parameters. It first builds the configuration line that CloudStack writes, so that
// it refuses the same invalid lines as HAProxy.
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
		return nil, errors.New("stickiness LbCookie: the cookie has no name")
	}
	c := &Cookie{Name: words[0]}
	for i := 1; i < len(words); i++ {
		switch w := words[i]; w {
		case CookieInsert, CookieRewrite, CookiePrefix:
			if c.Mode != "" && c.Mode != w {
				return nil, fmt.Errorf("stickiness LbCookie: HAProxy accepts only one of the modes %s and %s", c.Mode, w)
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
				return nil, errors.New("stickiness LbCookie: HAProxy requires a name after domain")
			}
			c.Domain = strings.Join(slices.DeleteFunc([]string{c.Domain, words[i]}, func(s string) bool { return s == "" }), "; domain=")
		default:
			return nil, fmt.Errorf("stickiness LbCookie %q: HAProxy does not know this word; the modes are insert, rewrite and prefix", w)
		}
	}
	if c.Mode == CookieRewrite && c.Indirect {
		return nil, errors.New("stickiness LbCookie: HAProxy does not accept indirect with mode rewrite")
	}
	return c, nil
}

// javaHash returns Java's hash of a string, from which CloudStack derives the default cookie name.
func javaHash(s string) int32 {
	var h int32
	for _, c := range []byte(s) { // the string is an address, which is ASCII
		h = 31*h + int32(c)
	}
	return h
}

// cookieValue returns the cookie value of a member.
func cookieValue(member netip.AddrPort) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(member.Addr().String(), ".", "_"), member.Port())
}

// dateEnd separates the load balancer's value from dates, which other load balancers append.
const dateEnd = "|"

// ask returns the member values in the cookies of a client's request, and removes from the request what members must
// not see.
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

// answer adds the cookie for the member to an answer. direct is set if the request selected this member.
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
		case CookieInsert: // replaced by the load balancer's cookie
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

// cacheableStatus are the status codes whose answers are cacheable by default.
var cacheableStatus = []int{200, 203, 204, 206, 300, 301, 404, 405, 410, 414, 501}

// cacheable reports whether HAProxy considers an answer cacheable.
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
