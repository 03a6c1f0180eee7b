// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csccm/csccm/pkg/redact"
)

const (
	redacted = "REDACTED"
	maxText  = 1000 // bytes; longer texts are cut
)

var (
	secretPair = regexp.MustCompile(`(?i)\b(api_?key|secret_?key|secret|signature|session_?key|jsessionid|\w*password|token)(["']?\s*[=:]\s*["']?)[^\s&"',;}]+`)
	urlQuery   = regexp.MustCompile(`(https?://[^\s"'?#]+)[?#][^\s"']*`)
	// The text of error 432 contains a random UUID, new for every call. Without it, equal refusals have equal texts.
	randomUserID = regexp.MustCompile(` for user id \[[0-9a-fA-F-]*\]`)
)

// sanitized makes a text from outside safe for logs and Events: one line of limited length, without URL queries,
// without the given secrets and without anything else that looks like a secret.
func sanitized(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 4 { // shorter ones would match ordinary words
			text = strings.ReplaceAll(text, s, redacted)
		}
	}

	text = urlQuery.ReplaceAllString(text, "$1")
	text = redact.URLs(text)
	text = secretPair.ReplaceAllString(text, "${1}${2}"+redacted)
	text = randomUserID.ReplaceAllString(text, "")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)

	text = strings.TrimSpace(text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}

	return text
}
