// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// proxyHeader is the start of a PROXY protocol header, version 1.
const proxyHeader = "PROXY "

// Backend answers each request with its name and the request's path. In tests it replaces the Pods of a node.
type Backend struct {
	Name string

	listener net.Listener
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	stopped  bool
	wg       sync.WaitGroup
}

// StartBackend starts a backend that listens on an address; port 0 chooses a free port.
func StartBackend(ctx context.Context, name, address string) (*Backend, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", name, err)
	}
	b := &Backend{Name: name, listener: l, conns: map[net.Conn]struct{}{}}
	b.wg.Go(b.accept)
	return b, nil
}

// Address returns the address on which the backend listens.
func (b *Backend) Address() string { return b.listener.Addr().String() }

// Stop closes the listener and all connections, as the loss of a node would.
func (b *Backend) Stop() {
	_ = b.listener.Close() // fails when it was closed before, which is fine
	b.mu.Lock()
	b.stopped = true
	for c := range b.conns {
		_ = c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

func (b *Backend) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return // closed
		}
		b.mu.Lock()
		if b.stopped {
			_ = c.Close()
		} else {
			b.conns[c] = struct{}{}
			b.wg.Go(func() { b.serve(c) })
		}
		b.mu.Unlock()
	}
}

func (b *Backend) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
	}()
	in := bufio.NewReader(c)
	if start, err := in.Peek(len(proxyHeader)); err == nil && string(start) == proxyHeader {
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
	}
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		text, fate := fmt.Sprintf("%s %s\n", b.Name, req.URL.Path), "keep-alive"
		if req.Close {
			fate = "close"
		}
		_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n%s", len(text), fate, text)
		if err != nil || req.Close {
			return
		}
	}
}
