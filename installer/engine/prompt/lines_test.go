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

	"github.com/csccm/csccm/installer/engine/prompt"
)

func TestLines(t *testing.T) {
	t.Parallel()
	isURL := func(s string) error {
		if !strings.HasPrefix(s, "https://") {
			return errors.New("must start with https://")
		}
		return nil
	}
	choices := []prompt.Choice{{Value: "admin", Label: "Log in as an administrator"}, {Value: "keys", Label: "Use existing keys"}}
	tests := map[string]struct {
		typed   string
		ask     func(context.Context, prompt.Prompter) (any, error)
		want    any
		wantOut []string
		wantErr error
	}{
		"input": {
			typed: "https://a\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Input(ctx, prompt.Question{Message: "API URL", Validate: isURL})
			},
			want: "https://a", wantOut: []string{"API URL: "},
		},
		"input takes the default for an empty line": {
			typed: "\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Input(ctx, prompt.Question{Message: "Domain", Default: "ROOT"})
			},
			want: "ROOT", wantOut: []string{"Domain [ROOT]: "},
		},
		"input asks again after a wrong answer, and explains": {
			typed: "?\nftp://a\nhttps://b\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Input(ctx, prompt.Question{Message: "API URL", Help: "the address of /client/api", Validate: isURL})
			},
			want: "https://b", wantOut: []string{"the address of /client/api", "must start with https://"},
		},
		"last line without newline": {
			typed: "x",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Input(ctx, prompt.Question{Message: "Zone"})
			},
			want: "x",
		},
		"ended": {
			typed: "",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Input(ctx, prompt.Question{Message: "Zone"})
			},
			want: "", wantErr: prompt.ErrEnded,
		},
		"secret keeps inner spaces and is not written back": {
			typed: " s3 cret \n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Secret(ctx, prompt.Question{Message: "Password"})
			},
			want: " s3 cret ", wantOut: []string{"Password (not shown): "},
		},
		"select by number": {
			typed: "3\n2\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Select(ctx, prompt.Question{Message: "Credentials"}, choices)
			},
			want: "keys", wantOut: []string{"1) Log in as an administrator", `"3" is none of the choices; give a number from 1 to 2`},
		},
		"select by value": {
			typed: "ADMIN\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Select(ctx, prompt.Question{Message: "Credentials"}, choices)
			},
			want: "admin",
		},
		"select default": {
			typed: "\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Select(ctx, prompt.Question{Message: "Credentials", Default: "keys"}, choices)
			},
			want: "keys",
		},
		"confirm": {
			typed: "maybe\nY\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Confirm(ctx, prompt.Question{Message: "Go on"})
			},
			want: true, wantOut: []string{`"maybe" is neither yes nor no`},
		},
		"confirm defaults to no": {
			typed: "\n",
			ask: func(ctx context.Context, p prompt.Prompter) (any, error) {
				return p.Confirm(ctx, prompt.Question{Message: "Go on"})
			},
			want: false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			p := prompt.NewLines(strings.NewReader(tc.typed), &out)
			got, err := tc.ask(t.Context(), p)
			if tc.wantErr != nil {
				require.ErrorIs(t, err, tc.wantErr)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tc.want, got)
			for _, s := range tc.wantOut {
				require.Contains(t, out.String(), s)
			}
			require.NotContains(t, out.String(), "cret", "an answer to Secret must not be shown")
		})
	}
}

// Answers given ahead in one go serve several questions.
func TestLinesInSequence(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := prompt.NewLines(strings.NewReader("https://a\nadmin\npw\nyes\n"), &out)
	url, err := p.Input(t.Context(), prompt.Question{Message: "URL"})
	require.NoError(t, err)
	user, err := p.Input(t.Context(), prompt.Question{Message: "User"})
	require.NoError(t, err)
	password, err := p.Secret(t.Context(), prompt.Question{Message: "Password"})
	require.NoError(t, err)
	ok, err := p.Confirm(t.Context(), prompt.Question{Message: "Sure"})
	require.NoError(t, err)
	require.Equal(t, []any{"https://a", "admin", "pw", true}, []any{url, user, password, ok})
}

func TestLinesEndsWithContext(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("asked to stop")
	out := writerFunc(func(b []byte) (int, error) {
		cancel(why) // once the question is on the screen
		return len(b), nil
	})
	_, err := prompt.NewLines(r, out).Input(ctx, prompt.Question{Message: "URL"})
	require.ErrorIs(t, err, why)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestRefusing(t *testing.T) {
	t.Parallel()
	p := prompt.NewRefusing()
	q := prompt.Question{Message: "CloudStack API URL", Flag: "--api-url URL"}
	_, e1 := p.Input(t.Context(), q)
	_, e2 := p.Secret(t.Context(), q)
	_, e3 := p.Select(t.Context(), q, nil)
	_, e4 := p.Confirm(t.Context(), prompt.Question{Message: "Go on", Flag: "--yes"})
	require.EqualError(t, e4, `the answer to "Go on?": not given, and there is no terminal to ask on`)
	for _, err := range []error{e1, e2, e3} {
		var missing *prompt.MissingError
		require.ErrorAs(t, err, &missing)
		require.EqualError(t, err, "CloudStack API URL: not given, and there is no terminal to ask on")
		require.Equal(t, "add --api-url URL", missing.Remedy())
		require.Equal(t, 2, missing.ExitCode())
	}
}
