// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package echo

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, "token", "pod-1") }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	return l.Addr().String()
}

func TestAsk(t *testing.T) {
	t.Parallel()
	at := serve(t)
	a, err := ask(t.Context(), at, "token")
	require.NoError(t, err)
	require.Equal(t, "pod-1", a.Pod)
	require.False(t, a.Proxied)
	host, _, err := net.SplitHostPort(a.Client)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	_, err = ask(t.Context(), at, "another")
	require.ErrorContains(t, err, "no answer came")
}

func TestPROXYProtocol(t *testing.T) {
	t.Parallel()
	c, err := net.Dial("tcp", serve(t))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a test's
	_, err = fmt.Fprint(c, "PROXY TCP4 198.51.100.7 203.0.113.20 4711 9081\r\ncsccm-test token\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "csccm-test pod-1 198.51.100.7:4711 yes\n", line)
}

// Answers of a load balancer that has not applied the rule yet are not failures.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	asked := make(chan struct{})
	go func() {
		c, err := l.Accept()
		if err == nil {
			_ = c.Close()
		}
		close(asked)
		_ = Serve(t.Context(), l, "token", "pod-1")
	}()
	a, err := Ask(t.Context(), l.Addr().String(), "token")
	require.NoError(t, err)
	require.Equal(t, "pod-1", a.Pod)
	<-asked

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, err = Ask(ctx, "127.0.0.1:1", "token")
	require.ErrorIs(t, err, context.Canceled)
	require.NotEmpty(t, a.Error)
}
