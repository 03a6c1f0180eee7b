// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

// A read that fails with 530 for good costs four calls, each of which counts for the rate limit, and fails as before.
func TestReadsThatAlwaysFailWith530(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, func(int, url.Values) reply {
		return jsonReply(530, `{"x":{"errorcode":530,"cserrorcode":9999,"errortext":"Internal error executing command"}}`)
	})
	clk := testclock.NewFakeClock(time.Now())
	c := f.client(t, WithClock(clk), WithJitter(func(time.Duration) time.Duration { return 0 }))
	c.limiter = newFairLimiter(1, 100, clk)
	_, err := c.ListZones(t.Context())
	require.Equal(t, KindUnknown, asError(t, err).Kind)
	require.Len(t, f.recorded(), 4)
	require.Equal(t, clk.Now().Add(4*time.Second), c.limiter.full, "each try takes a token")
}
