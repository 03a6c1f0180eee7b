// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"net/url"
	"slices"
)

// sign computes the signature of a form: parameters sorted by raw name, values
// percent-encoded as Java's form encoding does with blanks as %20, the whole
// in lower case, HMAC-SHA1, base64. A parameter named signature is left out.
//
// Go's own escaping differs from Java's in ~ (Java: %7e) and * (Java: as is); a
// value with either, signed Go's way, is refused with 401.
func sign(form url.Values, secret string) string {
	names := make([]string, 0, len(form))
	size := 0
	for name, values := range form {
		if name == paramSignature {
			continue
		}
		names = append(names, name)
		for _, v := range values {
			size += len(name) + len(v) + 8
		}
	}
	slices.Sort(names)
	buf := make([]byte, 0, size)
	for _, name := range names {
		for _, v := range form[name] {
			if len(buf) > 0 {
				buf = append(buf, '&')
			}
			for i := range len(name) {
				buf = append(buf, lower(name[i]))
			}
			buf = append(buf, '=')
			buf = appendJavaLower(buf, v)
		}
	}
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write(buf)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// appendJavaLower appends v in Java's form encoding (UTF-8, blank as %20), in lower case.
func appendJavaLower(buf []byte, v string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(v) {
		c := v[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '*', c == '-', c == '_', c == '.':
			buf = append(buf, lower(c))
		default:
			buf = append(buf, '%', hex[c>>4], hex[c&15])
		}
	}
	return buf
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
