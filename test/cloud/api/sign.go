// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- CloudStack's signature is HMAC-SHA1
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// sign returns CloudStack's signature of a form: the parameters sorted by name, their values escaped as Java does, all in
// lower case.
func sign(form url.Values, secret string) string {
	var parts []string
	for k, v := range form {
		value := strings.NewReplacer("+", "%20", "~", "%7E", "%2A", "*").Replace(url.QueryEscape(v[0]))
		parts = append(parts, strings.ToLower(k+"="+value))
	}
	slices.Sort(parts)
	mac := hmac.New(sha1.New, []byte(secret))
	_, _ = mac.Write([]byte(strings.Join(parts, "&")))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
