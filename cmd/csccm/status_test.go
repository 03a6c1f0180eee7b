// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/status"
)

// Each round of a watch reads the cluster again. The watch shows changes, continues while the API server is down, and
// ends with ^C.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	const one, two = `{"metadata":{"name":"demo-worker-1"}}`, `{"metadata":{"name":"demo-worker-1"}},{"metadata":{"name":"demo-worker-2"}}`
	var nodes atomic.Value // the nodes that the API server returns; it has no other objects
	nodes.Store(one)
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch items := nodes.Load().(string); {
		case items != "" && r.URL.Path == "/api/v1/nodes":
			_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[`+items+`]}`)
		case items != "" && r.URL.Path == "/version":
			_, _ = io.WriteString(w, `{"major":"1","minor":"37","gitVersion":"v1.37.1"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))

	t.Cleanup(a.Close)
	out, in := io.Pipe()
	// after a minute, Decode fails instead of waiting for another round
	defer time.AfterFunc(time.Minute, func() { _ = in.Close() }).Stop()
	root := rootCommand(cli.New(cli.Streams{Out: in, ErrOut: io.Discard, Getenv: environment()}))
	root.SetArgs([]string{"status", "--watch", "--interval", "1s", "-o", "json", "--server", a.URL})
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	rounds := json.NewDecoder(out)
	until := func(want int) {
		t.Helper()
		for total := -1; total != want; {
			var s status.Status
			require.NoError(t, rounds.Decode(&s))
			total = s.Nodes.Total
		}
	}

	until(1)
	nodes.Store(two)
	until(2)
	nodes.Store("")
	until(0)
	cancel(cli.ErrInterrupted)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	require.Equal(t, 130, cli.ExitCode(<-ended))
}
