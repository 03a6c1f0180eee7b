// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// freePorts returns n different free TCP ports on loopback.
func freePorts(ctx context.Context, n int) (_ []int, err error) {
	defer must.Return(&err)
	ports := make([]int, 0, n)
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", loopback+":0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Each stays open until all are found, so that they differ.
		defer func() { _ = l.Close() }()
		_, text := must.Get2(net.SplitHostPort(l.Addr().String()))
		port := must.Get(strconv.Atoi(text))
		ports = append(ports, port)
	}
	return ports, nil
}

func dialable(ctx context.Context, socket string) (err error) {
	defer must.Return(&err)
	c := must.Get((&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket))
	return c.Close()
}

func answers(ctx context.Context, client *http.Client, url string) (err error) {
	defer must.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	must.Get(io.Copy(io.Discard, resp.Body))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", req.URL.Path, resp.Status)
	}
	return nil
}
