// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/csccm/csccm/test/internal/must"
)

// handler serves the supported part of the kubelet API. Only the API server has access.
func (n *Node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /configz", n.serveConfigz)
	if !n.o.NoFlagz {
		mux.HandleFunc("GET /flagz", n.serveFlagz)
	}
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	mux.HandleFunc("POST /portForward/{namespace}/{pod}", n.servePortForward)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if who := r.TLS.VerifiedChains[0][0].Subject.CommonName; who != n.o.ControlPlane.KubeletClient() {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s)", who), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serveConfigz returns the kubelet's configuration file. Command line flags, such as
// --cloud-provider, are not part of it: only /flagz returns those.
func (n *Node) serveConfigz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"kubeletconfig": map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"address": n.o.Address, "port": kubeletPort, "registerNode": true, "clusterDomain": "cluster.local",
		"nodeLeaseDurationSeconds":  leaseSeconds,
		"nodeStatusReportFrequency": statusPeriod.String(),
		"authentication":            map[string]any{"anonymous": map[string]any{"enabled": false}},
		"authorization":             map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint":  "",
		"enableDebuggingHandlers":   true,
		"enableSystemLogQuery":      false,
		"shutdownGracePeriod":       "0s",
	}})
}

// serveLogs answers kubectl logs with the log of the latest run; of its options it supports tailLines.
func (n *Node) serveLogs(w http.ResponseWriter, r *http.Request) {
	worker := n.find(r.PathValue("namespace"), r.PathValue("pod"))
	if worker == nil {
		http.Error(w, fmt.Sprintf("no pod %s on this node", r.PathValue("pod")), http.StatusNotFound)
		return
	}
	path, ok := worker.logFile()
	if !ok {
		http.Error(w, "the container has no log", http.StatusBadRequest)
		return
	}
	text, err := os.ReadFile(path) // #nosec G304 -- a log of this node
	if err != nil {
		http.Error(w, "the log cannot be read", http.StatusInternalServerError)
		return
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		lines = lines[max(0, len(lines)-1-n):] // the last is empty, after the end of the last line
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(bytes.Join(lines, nil))
}

// servePortForward answers kubectl port-forward, with the kubelet's own code. What a kubelet dials in the network namespace
// of the Pod is the Pod's own address here.
func (n *Node) servePortForward(w http.ResponseWriter, r *http.Request) {
	worker := n.find(r.PathValue("namespace"), r.PathValue("pod"))
	if worker == nil {
		http.Error(w, fmt.Sprintf("no pod %s on this node", r.PathValue("pod")), http.StatusNotFound)
		return
	}
	o, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder(worker.podIP), worker.name(), string(worker.latest().UID), o, forwardIdle, forwardIdle, portforward.SupportedProtocols)
}

// forwardIdle is how long a forwarded port may be idle.
const forwardIdle = time.Minute

// forwarder forwards to the ports of an address.
type forwarder string

// PortForward implements portforward.PortForwarder.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, near io.ReadWriteCloser) (err error) {
	defer must.Return(&err)
	far := must.Get((&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(string(f), strconv.Itoa(int(port)))))
	answered := make(chan error, 1)
	go func() {
		_, err := io.Copy(near, far)
		answered <- err
	}()
	_, err = io.Copy(far, near)
	if half, ok := far.(*net.TCPConn); ok {
		_ = half.CloseWrite() // the Pod may have ended the connection
	}
	return errors.Join(err, <-answered, far.Close())
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func certPool(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the cluster's CA holds no PEM certificate")
	}
	return pool, nil
}
