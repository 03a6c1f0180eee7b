// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// javaForm turns Go's form encoding into Java's with blanks as %20. They differ in ~ and * too: a value with either,
// signed Go's way, is refused with 401.
var javaForm = strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E")

// sign computes the signature of a form: parameters sorted by raw name, values percent-encoded as by javaForm, the
// whole in lower case, HMAC-SHA1, base64. A parameter named signature is left out.
func sign(form url.Values, secret string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if name == paramSignature {
			continue
		}
		for _, v := range form[name] {
			parts = append(parts, name+"="+javaForm.Replace(url.QueryEscape(v)))
		}
	}
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(strings.ToLower(strings.Join(parts, "&"))))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
