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
	var lists memberLists
	same := func(a, b []string) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }
	first := lists.one([]string{"a", "b"})
	require.Equal(t, []string{"a", "b"}, first)
	require.True(t, same(first, lists.one([]string{"a", "b"})), "one copy")
	require.Equal(t, []string{"a"}, lists.one([]string{"a"}))
	require.Empty(t, lists.one(nil))
	longer := append(lists.one([]string{"a", "b"}), "c")
	require.False(t, same(first, longer), "what others share is not appended to")
	require.Equal(t, []string{"a", "b"}, first)
	for i := range len(lists.recent) {
		lists.one([]string{strconv.Itoa(i)})
	}
	require.False(t, same(first, lists.one([]string{"a", "b"})), "only the recent ones are kept")
}
