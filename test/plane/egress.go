// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// egress is the proxy through which the API server connects to nodes. The API server refuses to proxy to nodes with
// loopback addresses, and nodes of the tests have the addresses of VMs, which do not exist on this machine. So the API
// server's egress selector names this HTTP CONNECT proxy on a unix socket, and the proxy maps each node's address to
// the node's listener on loopback. This needs neither root nor a listener that other machines can reach.
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

func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, ok := e.routes.Load(r.Host)
	if !ok {
		http.Error(w, "no node listens at "+r.Host, http.StatusBadGateway)
		return
	}

	ctx, cancel := context.WithTimeout(r.Context(), dialLimit)
	defer cancel()
	node, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.(string)) //nolint:forcetypeassert // nothing else is stored
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
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")

	// The connections end with the API server or the node. After one direction has ended, closing the connection ends
	// the other direction.
	go func() {
		_, _ = io.Copy(node, client)
		_ = node.Close()
	}()

	_, _ = io.Copy(client, node)
}

func (e *egress) close() { _ = e.server.Close() }
