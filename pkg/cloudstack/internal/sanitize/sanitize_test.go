// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text":                             "plain text",
		"see https://h/p?apiKey=abc&signature=d": "see https://h/p",
		"at http://u:pw@h/p":                     "at http://h/p",
		"apikey=abcdef, rest":                    "apikey=REDACTED, rest",
		`"secretkey":"abcdef"`:                   `"secretkey":"REDACTED"`,
		"sessionkey: abc; x":                     "sessionkey: REDACTED; x",
		"two\nlines\tand\x00more":                "two lines and more",
		"mine is TopSecretValue here":            "mine is REDACTED here",
		"The API [x] does not exist or is not available for the account for user id [9a8b2360-e86e-4f25-acac-8a18ff9a1a4e].": "The API [x] does not exist or is not available for the account.",
	} {
		require.Equal(t, want, Text(in, "TopSecretValue", "no"))
	}
	require.Len(t, Text(strings.Repeat("1", 1500)), MaxSize+3)
}
