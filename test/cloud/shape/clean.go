// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Cleaner removes ids, addresses and secrets from answers. What is the same in two answers stays the same.
type Cleaner struct{ ids, addresses, macs map[string]string }

// NewCleaner returns a Cleaner that has seen nothing.
func NewCleaner() *Cleaner {
	return &Cleaner{map[string]string{}, map[string]string{}, map[string]string{}}
}

var (
	uuid = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	ipv4 = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	mac  = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)
	// keyLike are values of the length and kind of API keys, wherever they stand.
	keyLike = regexp.MustCompile(`[A-Za-z0-9_-]{64,}`)

	// secretKeys are members and parameters that are never written.
	secretKeys = map[string]bool{
		"apikey": true, "secretkey": true, "signature": true, "sessionkey": true, "password": true, "privatekey": true, "userapikey": true,
		"certificate": true, "certchain": true, "jsessionid": true, "username": true, "email": true, "sshkey": true, "userdata": true, "publickey": true,
	}
	// placeKeys name the operator's machines and places.
	placeKeys = map[string]bool{
		"zonename": true, "hostname": true, "podname": true, "clustername": true, "instancename": true, "domain": true, "domainpath": true, "domainname": true,
		"networkdomain": true, "traffictype": false, "osdisplayname": false, "firstname": true, "lastname": true,
	}
)

const redacted = "REDACTED"

// Value returns a copy of a JSON value without ids, addresses, secrets and names of places; key is its member's name.
func (c *Cleaner) Value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return c.object(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = c.Value(key, item)
		}
		return list
	case string:
		return c.text(key, v)
	}
	if secretKeys[key] && v != nil {
		return redacted
	}
	return v
}

func (c *Cleaner) object(v map[string]any) map[string]any {
	m := map[string]any{}
	for k, item := range v {
		m[k] = c.Value(strings.ToLower(k), item)
	}
	return m
}

func (c *Cleaner) text(key, s string) string {
	switch {
	case s == "":
		return s
	case secretKeys[key]:
		return redacted
	case placeKeys[key]:
		return "removed"
	}
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		return same(c.ids, strings.ToLower(id), func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) })
	})
	s = mac.ReplaceAllStringFunc(s, func(m string) string {
		return same(c.macs, strings.ToLower(m), func(n int) string { return fmt.Sprintf("02:00:00:00:%02x:%02x", n>>8&0xff, n&0xff) })
	})
	s = ipv4.ReplaceAllStringFunc(s, func(a string) string {
		ip, err := netip.ParseAddr(a)
		if err != nil || ip.IsUnspecified() || ip.IsLoopback() || strings.HasPrefix(a, "255.") {
			return a // a mask, or no address
		}
		return same(c.addresses, a, func(n int) string { return fmt.Sprintf("203.0.113.%d", 1+n%253) })
	})
	if !strings.Contains(s, "-0000-4000-8000-") {
		s = keyLike.ReplaceAllString(s, redacted)
	}
	return s
}

func same(seen map[string]string, value string, invent func(n int) string) string {
	if seen[value] == "" {
		seen[value] = invent(len(seen) + 1)
	}
	return seen[value]
}
