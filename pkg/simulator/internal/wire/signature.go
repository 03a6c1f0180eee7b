// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/hmac"
	"crypto/sha1" // CloudStack signs requests with HMAC-SHA1
	"crypto/subtle"
	"encoding/base64"
	"sort"
	"strings"
	"time"
)

// StringToSign returns the text that a client signs, in lower case: all parameters except the signature, sorted by
// name as sent, with values encoded like java.net.URLEncoder.
func StringToSign(ps []Param) string {
	list := make([]Param, 0, len(ps))
	for _, p := range ps {
		if !strings.EqualFold(p.Name, "signature") {
			list = append(list, p)
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	var b strings.Builder
	for i, p := range list {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.Name)
		b.WriteByte('=')
		JavaEscape(&b, p.Value)
	}
	return strings.ToLower(b.String())
}

// JavaEscape writes s like java.net.URLEncoder in UTF-8, with + replaced by %20. Unlike url.QueryEscape, it escapes ~
// and does not escape *.
func JavaEscape(b *strings.Builder, s string) {
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

// Sign returns the Base64 signature of a request.
func Sign(secret string, ps []Param) string { return HmacOf(secret, StringToSign(ps)) }

// HmacOf returns the Base64 of the HMAC-SHA1 of a text.
func HmacOf(secret, text string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// SignatureMatches reports whether got is the signature of the parameters.
func SignatureMatches(secret string, ps []Param, got string) bool {
	return subtle.ConstantTimeCompare([]byte(Sign(secret, ps)), []byte(got)) == 1
}

// ExpiresFormats are the formats of the parameter expires that CloudStack accepts.
var ExpiresFormats = []string{
	"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000-0700", "2006-01-02T15:04:05.000Z",
}

// Fresh reports whether a request has not expired. Signature version 3 requires a valid expires in the future; other
// versions ignore expires.
func Fresh(version, expires string, now time.Time) bool {
	if version != "3" {
		return true
	}
	for _, f := range ExpiresFormats {
		if t, err := time.Parse(f, expires); err == nil {
			return t.After(now)
		}
	}
	return false
}
