// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestReceivedBytesAreCounted checks that data is counted when a reader receives it, even if the writer has not returned yet.
func TestReceivedBytesAreCounted(t *testing.T) {
	t.Parallel()
	var counter atomic.Int64
	w := counting{writer(func(b []byte) (int, error) {
		require.EqualValues(t, len(b), counter.Load())
		return 2, io.ErrShortWrite
	}), []*atomic.Int64{&counter}}
	n, err := w.Write([]byte("four"))
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.Equal(t, 2, n)
	require.EqualValues(t, 2, counter.Load(), "bytes that were not written are not counted")
}
