// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

func TestMemberLists(t *testing.T) {
	t.Parallel()
	p := New(API{}, Options{})
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

// The wait for a rule in state Deleting began again with each look when another address was to be released, too.
func TestReleaseDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	actual := plan.Actual{Addresses: []plan.Address{{ID: "1"}, {ID: "2", Rules: []plan.Item{{Rule: access.Rule{Deleting: true}}}}, {ID: "3"}}}
	var steps []plan.Step
	for _, a := range actual.Addresses {
		steps = append(steps, plan.Step{Kind: plan.ReleaseAddress, On: plan.On{AddressID: a.ID}})
	}
	m, now := apply.Memory{}, time.Now()
	require.Error(t, m.DeletionsRunning(steps, actual, now))
	require.Error(t, m.DeletionsRunning(steps, actual, now.Add(20*time.Second)))
	require.NoError(t, m.DeletionsRunning(steps, actual, now.Add(31*time.Second)))
}
