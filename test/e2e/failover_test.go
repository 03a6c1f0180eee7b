// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
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

// TestFailover ends a leader in four ways. The two replicas must never both write.
func TestFailover(t *testing.T) {
	t.Parallel()
	signal := func(s syscall.Signal) func(*child.Process, *link) error {
		return func(p *child.Process, _ *link) error { return p.Signal(s) }
	}
	for _, c := range []struct {
		name string
		end  func(*child.Process, *link) error
		code int // the old leader's exit code
	}{
		{"told to end", signal(syscall.SIGTERM), 0}, // the leader releases the lease
		{"killed", signal(syscall.SIGKILL), 128 + int(syscall.SIGKILL)},
		{"cut off from the API server", func(_ *child.Process, l *link) error { l.cut.Store(true); return nil }, 1},
		{"paused", signal(syscall.SIGSTOP), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newDirectEnv(t, 4)
			e.register(t, 1, 2, nil)
			l := newLink(t, e.url())
			old := e.controllerAt(t, "ccm-a", "https://"+l.listener.Addr().String())
			e.says(t, old, leads)
			e.initialised(t, 2)
			first := e.holder(t.Context())
			e.says(t, e.controller(t, "ccm-b"), standsBy)

			e.cloud.Ledger().Reset()
			begun := time.Now()
			require.NoError(t, c.end(old, l))
			e.newLeader(t, first)
			// Work that both would do.
			e.register(t, 3, 4, nil)
			e.service(t, "web", 80, 443)
			e.initialised(t, 4)
			if c.name == "paused" {
				require.NoError(t, old.Signal(syscall.SIGCONT))
			}
			e.address(t, "web")
			select {
			case <-old.Done():
				require.Equal(t, c.code, old.ExitCode())
			case <-time.After(limit):
				t.Fatal("the old leader has not ended")
			}
			e.noOverlap(t, "ccm-a", "ccm-b")
			// The replica lists VMs once when it starts. New nodes may need newer lists.
			require.LessOrEqual(t, len(e.cloud.Ledger().Find("listVirtualMachines", "ccm-b")),
				2+int(time.Since(begun)/(3*time.Second)))
			l2, err := e.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease,
				metav1.GetOptions{})
			require.NoError(t, err)
			require.EqualValues(t, 15, *l2.Spec.LeaseDurationSeconds)
		})
	}
}

// noOverlap checks, in both APIs, that the loser wrote nothing after the winner's first write. The loser's attempts to
// take the lease do not count: they fail, and so the loser learns that it has lost.
func (e *directEnv) noOverlap(t *testing.T, loser, winner string) {
	t.Helper()
	lines, err := e.AuditLog()
	require.NoError(t, err)
	var begun, last time.Time // the winner's first write, and the loser's last
	for _, line := range lines {
		var r request
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		switch of := r.User.Username; {
		case r.ObjectRef.Resource == "leases" || r.ObjectRef.Resource == "events" || !slices.Contains(writes, r.Verb):
		case of == winner && (begun.IsZero() || r.At.Before(begun)):
			begun = r.At
		case of == loser && r.At.After(last):
			last = r.At
		}
	}

	require.True(t, !last.IsZero() && last.Before(begun), "%s wrote until %s, %s from %s", loser, last, winner, begun)
	for _, c := range e.cloud.Ledger().Find("", loser) { // the ledger was reset just before the old leader was ended
		require.Regexp(t, readOnly, c.Command, "%s sent it to CloudStack", loser)
	}
}

// link is a connection between a controller and the API server that a test can cut: later data is dropped without an
// error.
type link struct {
	listener net.Listener
	cut      atomic.Bool
}

// newLink returns a link to the server of a URL.
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

// cuttable reads from one end of a link. After the cut it reads nothing and blocks until the test ends.
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
