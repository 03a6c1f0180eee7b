// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecurityWriterEscapes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                            "",
		"✓ Zürich 東京 1\u00a0000\tx\n": "✓ Zürich 東京 1\u00a0000\tx\n",
		"\x1b[2J\x1b[H ok":            `\u001b[2J\u001b[H ok`,
		"\x1b]52;c;cm0gLXJmIC8=\a":    `\u001b]52;c;cm0gLXJmIC8=\u0007`,
		"a\rALL OK\b\x7f":             `a\u000dALL OK\u0008\u007f`,
		"\u009b31m \u0085":            `\u009b31m \u0085`,
		"\u202etxt\u2066\u200f\u2028": `\u202etxt\u2066\u200f\u2028`,
		"\U000e0041\ufeff":            `\udb40\udc41\ufeff`,
		"\xff\xc3(":                   "\ufffd\ufffd(",
		"\x00not the mark\x00.":       `\u0000not the mark\u0000.`,
		Own("\x1b[31m") + "\x1b" + Own("\x1b[0m"): "\x1b[31m" + `\u001b` + "\x1b[0m",
	} {
		var b bytes.Buffer
		w := Writer(&b)
		require.Same(t, w, Writer(w), "once")
		n, err := w.Write([]byte(in))
		require.NoError(t, err)
		assert.Equal(t, len(in), n)
		assert.Equal(t, want, b.String())

		b.Reset() // byte by byte, because a write may end anywhere in the text
		for i := range len(in) {
			_, err := w.Write([]byte{in[i]})
			require.NoError(t, err)
		}
		assert.Equal(t, want, b.String())
	}
	assert.Equal(t, `a\nb\u001b`, Line("a\nb\x1b"))
}

// The writer must not change the meaning of JSON.
func TestSecurityWriterKeepsJSON(t *testing.T) {
	t.Parallel()
	in := map[string]string{"name": "\x1b[2J\u009b\u202e\U000e0041\u2028\x7f\n"}
	body, err := json.Marshal(in)
	require.NoError(t, err)
	var b bytes.Buffer
	_, err = Writer(&b).Write(body)
	require.NoError(t, err)
	require.Equal(t, -1, strings.IndexFunc(b.String(), func(r rune) bool { return !unicode.IsGraphic(r) }))
	out := map[string]string{}
	require.NoError(t, json.Unmarshal(b.Bytes(), &out))
	require.Equal(t, in, out)
}

func TestWriterKeepsTheDescriptor(t *testing.T) {
	t.Parallel()
	f, err := os.Create(t.TempDir() + "/f")
	require.NoError(t, err)
	w := Writer(f)
	fd, ok := w.(interface{ Fd() uintptr })
	require.True(t, ok)
	require.Equal(t, f.Fd(), fd.Fd())
	require.Same(t, f, Raw(w))
	require.Same(t, f, Raw(f))
	var b bytes.Buffer
	require.Same(t, &b, Raw(Writer(&b)))
	_, ok = Writer(&b).(interface{ Fd() uintptr })
	require.False(t, ok)
	require.NoError(t, f.Close())
}

func FuzzWriter(f *testing.F) {
	f.Add("\x1b[2J", 1)
	f.Add("\xe2\x80\xae"+mark, 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		var b bytes.Buffer
		w := Writer(&b)
		if strings.Contains(text, mark) {
			t.Skip("only the program itself knows the mark")
		}
		for size = max(size, 1); len(text) > 0; text = text[min(size, len(text)):] {
			_, err := w.Write([]byte(text[:min(size, len(text))]))
			require.NoError(t, err)
		}
		require.True(t, utf8.ValidString(b.String()))
		require.Equal(t, -1,
			strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }))
	})
}

func TestWriterRemovesPasswordsOfURLs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	_, err := Writer(&b).Write([]byte("value: http://ccm:canary@proxy:3128\n"))
	require.NoError(t, err)
	require.Equal(t, "value: http://REDACTED@proxy:3128\n", b.String())
}
