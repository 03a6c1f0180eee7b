// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

type pasted struct{ *bytes.Buffer }

func (pasted) Fd() uintptr { return 0 }

// On a busy machine, one Read returns everything that the user has typed and the terminal has sent.
func TestKeyboardKeepsWhatIsTypedAhead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typed string
		reads []string
	}{
		"keys behind the cursor's position": {"\x1b[24;80Rhalf\x03", []string{"\x1b[24;80R", "half\x03"}},
		"keys before it":                    {"half\x1b[1;2R\x03", []string{"half\x1b[1;2R", "\x03"}},
		"answers to two questions":          {"admin\rsecret\r\n", []string{"admin\r", "secret\r", "\n"}},
		"arrow keys stay whole":             {"\x1b[B\x1b[B\r", []string{"\x1b[B\x1b[B\r"}},
		"nothing to divide":                 {"half", []string{"half"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &keyboard{FileReader: pasted{bytes.NewBufferString(c.typed)}}
			var got []string
			for {
				p := make([]byte, 64)
				n, err := k.Read(p)
				if errors.Is(err, io.EOF) && n == 0 {
					break
				}
				require.NoError(t, err)
				got = append(got, string(p[:n]))
			}
			require.Equal(t, c.reads, got)
		})
	}

	k := &keyboard{FileReader: pasted{bytes.NewBufferString("ab\rcd")}}
	read, err := io.ReadAll(io.LimitReader(smallReads{k}, 16))
	require.NoError(t, err)
	require.Equal(t, "ab\rcd", string(read))
}

// smallReads returns one byte for each Read.
type smallReads struct{ io.Reader }

func (s smallReads) Read(p []byte) (int, error) { return s.Reader.Read(p[:1]) }
