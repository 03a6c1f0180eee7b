// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/child"
)

// leaseDuration is the framework's; who waits for the lease looks at it every 2 s to 4.4 s.
const leaseDuration = 15 * time.Second

// TestFailover ends a leader in four ways and measures how long nobody leads. In none of them may both
// replicas write. It counts looks at the lease, not seconds, and so runs beside other tests.
func TestFailover(t *testing.T) {
	t.Parallel()
	signal := func(s syscall.Signal) func(*testing.T, *child.Process, *link) {
		return func(t *testing.T, p *child.Process, _ *link) {
			t.Helper()
			require.NoError(t, p.Signal(s))
		}
	}
	const killed = 128 + int(syscall.SIGKILL)
	for _, c := range []struct {
		name string
		end  func(t *testing.T, p *child.Process, l *link)
		over time.Duration // since its last renewal the old leader's lease is over
		most int           // looks of the other at a lease that is over: one takes it, the first may have been on its way
		code int           // the old leader's exit code
	}{
		{"told to end", signal(syscall.SIGTERM), 0, 1, 0}, // it gives the lease back
		{"killed", signal(syscall.SIGKILL), leaseDuration, 3, killed},
		{"cut off from the API server", func(_ *testing.T, _ *child.Process, l *link) { l.cut.Store(true) }, leaseDuration, 3, 1},
		{"paused", signal(syscall.SIGSTOP), leaseDuration, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newDirectEnv(t, 6)
			e.register(t, 1, 3, nil)
			l := newLink(t, e.url())
			old := e.controllerAt(t, "ccm-a", "https://"+l.listener.Addr().String())
			e.leads(t, old)
			e.initialised(t, 3)
			first := e.holder(t.Context())
			e.says(t, e.controller(t, "ccm-b"), "ttempting to acquire leader lease")

			e.cloud.Ledger().Reset()
			begun := time.Now()
			c.end(t, old, l)
			took := e.newLeader(t, first)
			// Work that both would do.
			e.register(t, 4, 6, nil)
			e.service(t, "web", 80, 443)
			e.initialised(t, 6)
			worked := time.Since(begun)
			if c.name == "paused" {
				signal(syscall.SIGCONT)(t, old, nil)
			}
			ip := e.address(t, "web")
			select {
			case <-old.Done():
				if code := old.ExitCode(); code != c.code {
					t.Errorf("the old leader ended with %d, want %d", code, c.code)
				}
			case <-time.After(limit):
				t.Error("the old leader has not ended")
			}
			e.takenInTime(t, "ccm-a", "ccm-b", c.over, c.most)
			e.noOverlap(t, "ccm-a", "ccm-b")
			lists := len(e.cloud.Ledger().Find("listVirtualMachines", "ccm-b"))
			// One list to begin with; new nodes may need newer ones.
			if most := 1 + 1 + int(time.Since(begun)/(3*time.Second)); lists > most {
				t.Errorf("the new leader listed the VMs %d times, at most %d are due", lists, most)
			}
			t.Logf("FAILOVER | %s | another leads after %.1f s | new nodes initialised after %.1f s | %s | %d lists of VMs |", c.name, took.Seconds(), worked.Seconds(), ip, lists)
		})
	}
}

// takenInTime counts how often the winner looked at the lease after it was over, which no machine is too slow for: seconds
// are. It notices a renewal when it looks next, and goes by its own clock from there.
func (e *directEnv) takenInTime(t *testing.T, loser, winner string, over time.Duration, most int) {
	t.Helper()
	var looks []request
	var renewed, taken request // the loser's last, and the winner's first
	for _, r := range e.requests(t) {
		if r.ObjectRef.Resource != "leases" || r.ObjectRef.Name != lease || r.Status.Code >= http.StatusMultipleChoices {
			continue
		}
		switch {
		case r.User.Username == winner && r.Verb == "get":
			looks = append(looks, r)
		case r.User.Username == winner && (taken.At.IsZero() || r.At.Before(taken.At)):
			taken = r
		case r.User.Username == loser && r.Verb != "get" && r.At.After(renewed.At):
			renewed = r
		}
	}
	if renewed.At.IsZero() || taken.At.IsZero() {
		t.Errorf("%s has never renewed the lease, or %s never taken it", loser, winner)
		return
	}
	slices.SortFunc(looks, func(a, b request) int { return a.At.Compare(b.At) })
	end := renewed.Answered
	if over > 0 {
		if i := slices.IndexFunc(looks, func(r request) bool { return r.At.After(end) }); i >= 0 {
			end = looks[i].Answered.Add(over)
		}
	}
	n := 0
	for _, r := range looks {
		if r.At.After(end) && r.At.Before(taken.At) {
			n++
		}
	}
	if n > most {
		t.Errorf("%s took the lease at its look number %d after the lease was over, at most %d are due", winner, n, most)
	}
	l, err := e.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil || *l.Spec.LeaseDurationSeconds != int32(leaseDuration/time.Second) {
		t.Errorf("want a lease for %s: %v, %v", leaseDuration, err, l.Spec)
	}
}

// noOverlap looks for writes of the loser after the winner's first, in both APIs. Attempts to take the lease
// are not counted: they are how the loser learns that it has lost, and they fail.
func (e *directEnv) noOverlap(t *testing.T, loser, winner string) {
	t.Helper()
	var begun, last time.Time // the winner's first write, and the loser's last
	for _, r := range e.requests(t) {
		if r.ObjectRef.Resource == "leases" || r.ObjectRef.Resource == "events" || !slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) {
			continue
		}
		if r.User.Username == winner && (begun.IsZero() || r.At.Before(begun)) {
			begun = r.At
		}
		if r.User.Username == loser && r.At.After(last) {
			last = r.At
		}
	}
	if begun.IsZero() || last.IsZero() || last.After(begun) {
		t.Errorf("%s wrote until %s, %s from %s; both are to write in their time", loser, last, winner, begun)
	}
	for _, c := range e.cloud.Ledger().Find("", loser) { // since the end of the old leader's time
		if !strings.HasPrefix(c.Command, "list") && !strings.HasPrefix(c.Command, "query") {
			t.Errorf("%s sent %s to CloudStack", loser, c.Command)
		}
	}
}

// link is a wire between a controller and the API server that a test can cut: what is sent afterwards
// arrives nowhere, and nobody is told.
type link struct {
	listener net.Listener
	cut      atomic.Bool
}

// newLink leads to the server of a URL.
func newLink(t *testing.T, server string) *link {
	t.Helper()
	ctx := t.Context() // ends before the cleanups of the test
	l := &link{}
	var err error
	l.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.listener.Close() })
	go func() {
		for {
			near, err := l.listener.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(server, "https://"))
			if err != nil {
				_ = near.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{far, near}, {near, far}} {
				go func() {
					_, _ = io.Copy(ends[0], &cuttable{ends[1], l, ctx})
					_ = ends[0].Close()
				}()
			}
		}
	}()
	return l
}

// cuttable reads from one end of a link. After the cut it reads nothing, and does not end before the test does.
type cuttable struct {
	net.Conn
	link *link
	ctx  context.Context
}

func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.link.cut.Load() {
		<-c.ctx.Done()
		return 0, io.EOF
	}
	return n, err
}
