// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package podlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Line{
		`E0102 03:00:00.500000       1 contact.go:38] "CloudStack cannot be used" err="cloudstack listZones: \"no\"" retryIn="1s" n={"a":1} last=true`: {
			At:      time.Date(2026, 1, 2, 3, 0, 0, 5e8, time.UTC),
			Level:   'E',
			Source:  "contact.go:38",
			Message: "CloudStack cannot be used",
			Values: map[string]string{
				"err":     `cloudstack listZones: "no"`,
				"retryIn": "1s",
				"n":       `{"a":1}`,
				"last":    "true",
			},
		},
		`W1231 23:59:59.000001       1 reflector.go:1] watch ended: it happens`: {
			At:      time.Date(2025, 12, 31, 23, 59, 59, 1000, time.UTC),
			Level:   'W',
			Source:  "reflector.go:1",
			Message: "watch ended: it happens",
		},
		`{"ts":1767322800500.0,"caller":"x/contact.go:32","msg":"CloudStack can be used","v":0,"scope":"3 VMs"}`: {
			At:      time.Date(2026, 1, 2, 3, 0, 0, 5e8, time.UTC),
			Level:   'I',
			Source:  "x/contact.go:32",
			Message: "CloudStack can be used",
			Values:  map[string]string{"scope": "3 VMs"},
		},
		`{"ts":1767322800500.0,"msg":"no","err":"boom"}`: {
			At:      time.Date(2026, 1, 2, 3, 0, 0, 5e8, time.UTC),
			Level:   'E',
			Message: "no",
			Values:  map[string]string{"err": "boom"},
		},
	} {
		l, ok := Parse(text, now)
		require.True(t, ok, text)
		require.Equal(t, want, l)
		require.Equal(t, want.Level == 'E', l.Error())
	}

	lines := ParseAll("I0102 03:00:00.5       1 a.go:1] hello\n\ngoroutine 1 [running]:\n{\"no\":1}\n", now)
	require.Len(t, lines, 1)
	require.Empty(t, lines[0].Values["err"])
}

func FuzzParse(f *testing.F) {
	f.Add(`E0102 03:00:00.500000       1 contact.go:38] "x" err="y" a=b`)
	f.Add(`{"ts":1,"msg":"x"}`)
	f.Fuzz(func(_ *testing.T, text string) { Parse(text, now) })
}
