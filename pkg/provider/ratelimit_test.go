// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// Many Services at once with rate-limit = auto: a server that throttles refuses no call, and one that does not is not
// held back.
func TestAutomaticRateLimit(t *testing.T) {
	t.Parallel()
	const services = 50
	for name, tc := range map[string]struct {
		settings string
		most     time.Duration // that the Services take
	}{
		"throttled":     {"settings: {throttleMax: 25, throttleIntervalSeconds: 1}\n", 50 * time.Second},
		"by the minute": {"settings: {throttleMax: 600, throttleIntervalSeconds: 60}\n", 100 * time.Second},
		"free":          {"", 12 * time.Second},
	} {
		parallel(t, name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refused atomic.Int64
				env := newEnv(t, withNodes(2), func(env *serviceEnv, w *string) {
					var err error
					env.latency, err = simulator.Profile("simulator")
					require.NoError(t, err)
					env.auto = true
					env.look = func(_ url.Values, res *http.Response) {
						if res.StatusCode == http.StatusTooManyRequests {
							refused.Add(1)
						}
					}
					*w = strings.Replace(*w, "zones:\n", tc.settings+"zones:\n", 1)
				})
				time.Sleep(time.Minute) // the test itself has made calls as the account
				env.createMany(services, someOrTen(2))
				begun := time.Now()
				env.each(services, func(name string) error {
					_, err := env.lb.EnsureLoadBalancer(t.Context(), "", env.get(name), nodesUpTo(2))
					return err
				})
				took := time.Since(begun)
				require.Zero(t, refused.Load())
				require.LessOrEqual(t, took, tc.most)
				require.Equal(t, 1, env.Ledger().Count("listCapabilities"))
				t.Logf("%s: %d calls, %d polls", took, len(env.calls()), env.Ledger().Count(testenv.Polls...))
			})
		})
	}
}
