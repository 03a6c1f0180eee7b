// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/status"
)

// rounds is an output that may be read while a command writes.
type rounds struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *rounds) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *rounds) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// Each round of a watch reads the cluster again: it shows what has changed, goes on while the API server is away, and ends
// with ^C.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "yaml", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			const kind = `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[`
			var nodes atomic.Value // what the API server answers about nodes; nothing else is there
			nodes.Store(kind + `{"metadata":{"name":"demo-worker-1"}}]}`)
			a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch body := nodes.Load().(string); {
				case body != "" && r.URL.Path == "/api/v1/nodes":
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, body)
				case body != "" && r.URL.Path == "/version":
					_, _ = io.WriteString(w, `{"major":"1","minor":"37","gitVersion":"v1.37.1"}`)
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			t.Cleanup(a.Close)
			var out, errOut rounds
			g := cli.New(cli.Streams{Out: &out, ErrOut: &errOut, Getenv: environment()})
			root := rootCommand(g)
			root.SetArgs([]string{"status", "--watch", "--interval", "1s", "-o", format, "--server", a.URL})
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- root.ExecuteContext(ctx) }()

			mark := map[string]string{"json": `"nodes": {`, "yaml": "---\n", "text": "Controller"}[format]
			rounds := func(n int) string {
				t.Helper()
				require.Eventually(t, func() bool { return strings.Count(out.String(), mark) >= n }, time.Minute, time.Millisecond)
				return out.String()
			}
			require.NotContains(t, rounds(1), "demo-worker-2")
			nodes.Store(kind + `{"metadata":{"name":"demo-worker-1"}},{"metadata":{"name":"demo-worker-2"}}]}`)
			require.Contains(t, rounds(3), "demo-worker-2") // the second may have been on its way
			nodes.Store("")
			rounds(5)
			cancel(cli.ErrInterrupted)
			require.Equal(t, 130, cli.ExitCode(<-ended))
			if format != "json" {
				return
			}
			decoder := json.NewDecoder(strings.NewReader(out.String()))
			var totals []int
			for {
				var s status.Status
				err := decoder.Decode(&s)
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				totals = append(totals, s.Nodes.Total)
			}
			require.Equal(t, 1, totals[0])
			require.Contains(t, totals, 2)
			require.Zero(t, totals[len(totals)-1])
		})
	}
}
