// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/redact"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://ccm:canary@127.0.0.1:9":                 "http://REDACTED@127.0.0.1:9",
		"http://canary@proxy/path":                      "http://REDACTED@proxy/path",
		`{"value":"socks5://ccm:c%40n'ary@proxy:1080"}`: `{"value":"socks5://REDACTED@proxy:1080"}`,
		"value: 'HTTPS://u:can@ary@[::1]:3128', x: b@c": "value: 'HTTPS://REDACTED@[::1]:3128', x: b@c",
		"http_proxy=ccm:canary@proxy:3128 -> https://a:b@c/": "http_proxy=REDACTED@proxy:3128 -> " +
			"https://REDACTED@c/",
		"http://a:canary@b:1,http://c:canary@d:2":                "http://REDACTED@b:1,http://REDACTED@d:2",
		"http://ccm:pa/ca#na?ry@proxy:3128":                      "http://REDACTED@proxy:3128",
		"http://ccm:1canary#x@proxy/":                            "http://REDACTED@proxy/",
		"http://ccm:ca@na/ry@proxy:3128":                         "http://REDACTED@proxy:3128",
		"http://ccm:ca/n@a#ry@proxy/,http://d":                   "http://REDACTED@proxy/,http://d",
		"https://h:8443/client/api?email=a@b.de":                 "https://h:8443/client/api?email=a@b.de",
		"ghcr.io/csccm/ccm:v1@sha256:9f86d081884c7d659a2feaa0":   "ghcr.io/csccm/ccm:v1@sha256:9f86d081884c7d659a2feaa0",
		"https://cloud.example.org:8443/client/api?email=a@b.de": "https://cloud.example.org:8443/client/api?email=a@b.de",
		"user jane@example.org at 10:30, node@10.0.0.1:80":       "user jane@example.org at 10:30, node@10.0.0.1:80",
	} {
		require.Equal(t, want, redact.URLs(text))
	}
}
