// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/seal"
)

// Records outlive a change of the keys: they are checked with the previous key, and signed again with the new one. The
// role may not tag, so that nothing but the records proves who acquired the address.
func TestTenantBRecordsSurviveNewKeys(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		var keys atomic.Pointer[[]string]
		use := func(secrets ...string) {
			var derived []string
			for _, s := range secrets {
				derived = append(derived, seal.DeriveKey(s))
			}
			keys.Store(&derived)
		}
		use("old")
		b := newBed(t, withoutTags, func(b *bed, _ *string) {
			b.options = func(d *loadBalancerDeps) { d.Seal = seal.New(func() []string { return *keys.Load() }) }
		})
		before := b.dump()
		b.service([]int{80})
		b.mustSync("w1")
		signed := b.get().Annotations[annotation.Addresses]
		require.Contains(t, signed, `"mac"`)

		use("new", "old")
		if restart {
			b.restart()
		}
		b.clock.SetTime(b.clock.Now().Add(6 * time.Minute))
		b.mustSync("w1")
		assert.NotEqual(t, signed, b.get().Annotations[annotation.Addresses], "the record is signed again")

		use("new")
		b.restart()
		b.mustSync("w1")
		require.NoError(t, b.remove())
		assert.Equal(t, before, b.dump())
	}
}

// The keys of the process: the current one first, then those of its life and the one that csccm rotate-keys wrote.
func TestRecordKeys(t *testing.T) {
	t.Parallel()
	var k recordKeys
	k.use(&cloudstack.Config{SecretKey: "a"})
	k.use(&cloudstack.Config{SecretKey: "b", PreviousRecordKey: "from-file"})
	k.use(&cloudstack.Config{SecretKey: "b", PreviousRecordKey: "from-file"})
	assert.Equal(t, []string{seal.DeriveKey("b"), "from-file", seal.DeriveKey("a")}, k.list())
	k.use(&cloudstack.Config{SecretKey: "a"})
	assert.Equal(t, []string{seal.DeriveKey("a"), seal.DeriveKey("b"), "from-file"}, k.list())
}
