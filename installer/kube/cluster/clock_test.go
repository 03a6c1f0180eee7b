// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// A machine without NTP uses the API server's time after the first response; differences of about a second are ignored.
func TestClockIsTheAPIServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ local, want time.Duration }{
		"as the server's": {time.Second, 0},
		"ahead":           {time.Minute, time.Minute},
		"behind":          {-10 * time.Minute, -10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"gitVersion":"v1.37.1"}`)) // with a Date header
			}))
			t.Cleanup(server.Close)
			c := &Cluster{dated: &atomic.Pointer[dated]{}, REST: &rest.Config{Host: server.URL}}
			c.REST.Wrap(c.noteDate)
			var err error
			c.Kube, err = kubernetes.NewForConfig(c.REST)
			require.NoError(t, err)

			local := clocktesting.NewFakeClock(time.Now().Add(tt.local))
			clock := c.Clock(local)
			require.Equal(t, local.Now(), clock.Now(), "nothing is known yet")
			_, err = c.Ping(t.Context())
			require.NoError(t, err)
			require.InDelta(t, tt.want, Ahead(clock), float64(3*time.Second))
			require.WithinDuration(t, local.Now().Add(-tt.want), clock.Now(), 3*time.Second)
			require.Equal(t, clock, c.Clock(clock), "never twice")
		})
	}
}
