// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package keyed

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMutex(t *testing.T) {
	t.Parallel()
	t.Run("one at a time, whatever the order of the keys", func(t *testing.T) {
		t.Parallel()
		var k Mutex
		var group sync.WaitGroup
		counter := map[string]int{} // a map, because the race detector then sees unguarded access
		for i := range 50 {
			group.Go(func() {
				keys := []string{"a", "b", "a"}
				if i%2 == 0 {
					keys = []string{"b", "a"}
				}
				unlock, err := k.Lock(t.Context(), keys...)
				if assert.NoError(t, err) {
					counter["n"]++
					unlock()
				}
			})
		}

		group.Wait()
		assert.Equal(t, 50, counter["n"])
		assert.Empty(t, k.locked, "nothing is kept of keys that nobody holds")
	})

	t.Run("a waiter whose context ends holds nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var k Mutex
			unlock, err := k.Lock(t.Context(), "b")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := k.Lock(ctx, "a", "b")
				ended <- err
			}()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			other, err := k.Lock(t.Context(), "a")
			require.NoError(t, err)
			other()
			unlock()
			assert.Empty(t, k.locked)
		})
	})
}
