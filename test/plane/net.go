// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// freePorts returns n different free TCP ports on loopback.
func freePorts(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", loopback+":0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Each stays open until all are found, so that they differ.
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // of a TCP listener
	}
	return ports, nil
}

func dialable(ctx context.Context, socket string) (err error) {
	defer must.Return(&err)
	c := must.Get((&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket))
	return c.Close()
}
