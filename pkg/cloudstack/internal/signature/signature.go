// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signature signs requests as CloudStack does.
package signature

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Param is the parameter that has the signature.
const Param = "signature"

// javaForm turns Go's form encoding into Java's with blanks as %20. They differ in ~ and * too: a value with either,
// signed Go's way, is refused with 401.
var javaForm = strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E")

// Of returns the signature of a form: parameters sorted by raw name, values percent-encoded as by javaForm, the
// whole in lower case, HMAC-SHA1, base64. A parameter named signature is left out.
func Of(form url.Values, secret string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if name == Param {
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
