// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// egress is the proxy through which the API server connects to nodes. The API server
// refuses to proxy to nodes with loopback addresses, and nodes of the tests have the
// addresses of VMs, which do not exist on this machine. So the API server's egress
// selector names this HTTP CONNECT proxy on a unix socket, and the proxy maps each
// node's address to that node's listener on loopback. This needs neither root nor a
// listener that is reachable from other machines.
type egress struct {
	server *http.Server
	routes sync.Map // from address to listener
}

const dialLimit = time.Minute

func egressConfig(socket string) string {
	return fmt.Sprintf(`apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %s
`, socket)
}

func listenEgress(ctx context.Context, socket string) (*egress, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for the API server's connections to nodes: %w", err)
	}
	e := &egress{}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: dialLimit}
	go func() { _ = e.server.Serve(l) }()
	return e, nil
}

func (e *egress) route(address, listener string) (remove func()) {
	e.routes.Store(address, listener)
	return func() { e.routes.CompareAndDelete(address, listener) }
}

// target returns the address to dial instead of a requested address. A loopback
// address is its own target: it is a webhook or an aggregated API server of a test.
func (e *egress) target(address string) (string, error) {
	if to, ok := e.routes.Load(address); ok {
		return to.(string), nil //nolint:forcetypeassert // nothing else is stored
	}
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsLoopback() {
		return address, nil
	}
	return "", fmt.Errorf("no node listens at %s", address)
}

func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only the method CONNECT is supported", http.StatusMethodNotAllowed)
		return
	}
	to, err := e.target(r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialLimit)
	defer cancel()
	node, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = node.Close() }()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	// The connections end with the API server or with the node.
	var wg sync.WaitGroup
	for _, ends := range [][2]net.Conn{{node, client}, {client, node}} {
		wg.Go(func() {
			_, _ = io.Copy(ends[0], ends[1])
			// One direction has ended: closing both connections ends the other.
			_ = ends[0].Close()
			_ = ends[1].Close()
		})
	}
	wg.Wait()
}

func (e *egress) close() { _ = e.server.Close() }
