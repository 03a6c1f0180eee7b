// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact removes user names and passwords from the URLs in a text, such as those of proxies. All output of the
// programs passes through it: terminal, logs, journals, support bundles and pages.
package redact

import (
	"regexp"
	"strings"
)

const removed = "REDACTED"

var (
	// A password may contain / ? # and @, although a URL must escape them. A colon that is followed only by a number is
	// a port. A path with an @ is taken for a part of the password.
	inURL = regexp.MustCompile(`(://)(?:[^\s/?#"]*|[^\s/?#":@]*:\d*[^\s/?#"\d][^\s"@]*)@(?:[^\s",]*@)?`)
	// A proxy may be written without a scheme. The port distinguishes it from the digest of an image.
	withPort = regexp.MustCompile(`[^\s/@:"'=,]+:[^\s/@"]+@([\w.-]+:\d{1,5}\b)`)
)

// URLs replaces user name and password of each URL in a text.
func URLs(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	text = inURL.ReplaceAllString(text, "${1}"+removed+"@")
	return withPort.ReplaceAllString(text, removed+"@${1}")
}
