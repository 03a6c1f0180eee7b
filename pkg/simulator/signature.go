// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/hmac"
	"crypto/sha1" // CloudStack signs requests with HMAC-SHA1
	"crypto/subtle"
	"encoding/base64"
	"sort"
	"strings"
	"time"
)

// stringToSign is the canonical form of a request: every parameter but the
// signature, sorted by its name as sent, values encoded the Java way, lower case.
func stringToSign(ps []param) string {
	list := make([]param, 0, len(ps))
	for _, p := range ps {
		if !strings.EqualFold(p.name, "signature") {
			list = append(list, p)
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].name < list[j].name })
	var b strings.Builder
	for i, p := range list {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.name)
		b.WriteByte('=')
		javaEscape(&b, p.value)
	}
	return strings.ToLower(b.String())
}

// javaEscape is java.net.URLEncoder in UTF-8 with + replaced by %20: unlike
// Go's url.QueryEscape it escapes ~ and leaves *.
func javaEscape(b *strings.Builder, s string) {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '*', c == '-', c == '_', c == '.':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
}

// sign computes the Base64 signature of a request.
func sign(secret string, ps []param) string { return hmacOf(secret, stringToSign(ps)) }

func hmacOf(secret, text string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func signatureMatches(secret string, ps []param, got string) bool {
	return subtle.ConstantTimeCompare([]byte(sign(secret, ps)), []byte(got)) == 1
}

// expiresFormats are the forms of the parameter expires that the server reads.
var expiresFormats = []string{
	"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000-0700", "2006-01-02T15:04:05.000Z",
}

// fresh applies the rules of signature version 3: expires must be there, readable and in the future.
// Any other version means that expires is ignored.
func fresh(version, expires string, now time.Time) bool {
	if version != "3" {
		return true
	}
	for _, f := range expiresFormats {
		if t, err := time.Parse(f, expires); err == nil {
			return t.After(now)
		}
	}
	return false
}
