// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestMemberLists(t *testing.T) {
	t.Parallel()
	p := NewPlanner(nil, Options{})
	same := func(a, b []string) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }
	first := p.oneCopy([]string{"a", "b"})
	require.True(t, same(first, p.oneCopy([]string{"a", "b"})), "one copy")
	require.Empty(t, p.oneCopy(nil))
	longer := append(p.oneCopy([]string{"a", "b"}), "c")
	require.False(t, same(first, longer), "what others share is not appended to")
	require.Equal(t, []string{"a", "b"}, first)
	for i := range 16 {
		p.oneCopy([]string{strconv.Itoa(i)})
	}
	require.False(t, same(first, p.oneCopy([]string{"a", "b"})), "only the recent ones are kept")
}
