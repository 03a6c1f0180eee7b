// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func keys(k ...string) func() []string { return func() []string { return k } }

func TestSealer(t *testing.T) {
	t.Parallel()
	old, now := DeriveKey("old secret"), DeriveKey("new secret")
	signed := New(keys(old)).Sign("cluster", "uid", "record")
	for name, c := range map[string]struct {
		sealer *Sealer
		mac    string
		parts  []string
		want   bool
	}{
		"the same":                  {New(keys(old)), signed, []string{"cluster", "uid", "record"}, true},
		"previous key still known":  {New(keys(now, old)), signed, []string{"cluster", "uid", "record"}, true},
		"another key":               {New(keys(now)), signed, []string{"cluster", "uid", "record"}, false},
		"another Service":           {New(keys(old)), signed, []string{"cluster", "other", "record"}, false},
		"another record":            {New(keys(old)), signed, []string{"cluster", "uid", "forged"}, false},
		"parts cut elsewhere":       {New(keys(old)), signed, []string{"cluste", "ruid", "record"}, false},
		"no signature":              {New(keys(old)), "", []string{"cluster", "uid", "record"}, false},
		"a signature cut short":     {New(keys(old)), signed[:8], []string{"cluster", "uid", "record"}, false},
		"no keys":                   {New(keys()), signed, []string{"cluster", "uid", "record"}, false},
		"no sealer":                 {nil, signed, []string{"cluster", "uid", "record"}, false},
		"signature without any key": {New(keys()), New(keys()).Sign("cluster"), []string{"cluster"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, c.sealer.Verify(c.mac, c.parts...))
		})
	}
	assert.Equal(t, DeriveKey("old secret"), old, "the key depends on the secret alone")
	assert.NotContains(t, old, "secret")
	assert.NotContains(t, signed, old)
}
