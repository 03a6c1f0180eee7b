// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
)

var (
	isURL = func(s string) error {
		if !strings.HasPrefix(s, "https://") {
			return errors.New("must start with https://")
		}
		return nil
	}
	choices = []prompt.Choice{
		{Value: "admin", Label: "Log in as an administrator"},
		{Value: "keys", Label: "Use existing keys"},
	}
	url  = prompt.Question{Message: "API URL", Help: "the address of /client/api", Validate: isURL}
	goOn = prompt.Question{Message: "Go on", YesNo: true}
)

func TestLines(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		typed string
		q     prompt.Question
		want  string // "" = the input ended
		says  []string
	}{
		"input": {"https://a\n", url, "https://a", []string{"API URL: "}},
		"the default for an empty line": {"\n", prompt.Question{Message: "Domain", Default: "ROOT"}, "ROOT",
			[]string{"Domain [ROOT]: "}},
		"asks again after a wrong answer, and explains": {
			"?\nftp://a\nhttps://b\n", url, "https://b",
			[]string{"the address of /client/api", "must start with https://"},
		},
		"last line without newline": {"x", prompt.Question{Message: "Zone"}, "x", nil},
		"ended":                     {"", prompt.Question{Message: "Zone"}, "", nil},
		"a secret keeps its spaces and is not written back": {
			" s3 cret \n", prompt.Question{Message: "Password", Secret: true}, " s3 cret ",
			[]string{"Password (not shown): "},
		},
		"choice by number": {
			"3\n2\n", prompt.Question{Choices: choices}, "keys",
			[]string{"1) Log in as an administrator", `"3" is not one of the choices; give a number from 1 to 2`},
		},
		"choice by value": {"ADMIN\n", prompt.Question{Choices: choices}, "admin", nil},
		"default choice": {"\n", prompt.Question{Choices: choices, Default: "keys"}, "keys",
			[]string{"[1-2, default keys]"}},
		"yes":                      {"maybe\nY\n", goOn, "yes", []string{`"maybe" is neither yes nor no`}},
		"no by default":            {"\n", goOn, "no", nil},
		"yes if it is the default": {"\n", prompt.Question{YesNo: true, Default: "yes"}, "yes", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			got, err := prompt.NewLines(strings.NewReader(tc.typed), &out).Ask(t.Context(), tc.q)
			if tc.want == "" {
				require.ErrorIs(t, err, prompt.ErrEnded)
				return
			}

			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			for _, s := range tc.says {
				require.Contains(t, out.String(), s)
			}

			require.NotContains(t, out.String(), "cret", "a secret must not be shown")
		})
	}
}

func TestLinesEndsWithContext(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("asked to stop")
	out := writerFunc(func(b []byte) (int, error) {
		cancel(why) // after the question was written
		return len(b), nil
	})
	_, err := prompt.NewLines(r, out).Ask(ctx, url)
	require.ErrorIs(t, err, why)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestRefusing(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]prompt.Question{
		"API URL: not given, and there is no terminal": {Message: "API URL", Flag: "--flag X"},
		`the answer to "Go on?": not given, and there is no terminal`: {
			Message: "Go on",
			Flag:    "--flag X",
			YesNo:   true,
		},
	} {
		_, err := prompt.NewRefusing().Ask(t.Context(), q)
		require.EqualError(t, err, want)
		var missing *report.Error
		require.ErrorAs(t, err, &missing)
		require.Equal(t, "add --flag X", missing.Remedy())
		require.Equal(t, report.ExitUsage, missing.ExitCode())
	}
}
