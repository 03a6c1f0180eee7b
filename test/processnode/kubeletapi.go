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
	"net/http"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handler serves the supported part of the kubelet API. Only the API server has access.
func (n *Node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /configz", n.serveConfigz)
	if !n.o.NoFlagz {
		mux.HandleFunc("GET /flagz", n.serveFlagz)
	}
	mux.HandleFunc("GET /pods", n.servePods)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	for _, absent := range []string{"/exec/", "/attach/", "/portForward/", "/run/"} {
		mux.HandleFunc(absent, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "process nodes have no exec, attach or port-forward", http.StatusNotImplemented)
		})
	}
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
	writeJSON(w, "application/json", map[string]any{"kubeletconfig": map[string]any{
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

func (n *Node) servePods(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for _, worker := range n.pods {
		list.Items = append(list.Items, *worker.latest())
	}
	n.mu.Unlock()
	writeJSON(w, "application/json", list)
}

// serveLogs answers kubectl logs: tailLines, limitBytes, previous and follow.
func (n *Node) serveLogs(w http.ResponseWriter, r *http.Request) {
	worker := n.find(r.PathValue("namespace"), r.PathValue("pod"))
	if worker == nil || worker.latest().Spec.Containers[0].Name != r.PathValue("container") {
		http.Error(w, fmt.Sprintf("no container %s in pod %s on this node", r.PathValue("container"), r.PathValue("pod")), http.StatusNotFound)
		return
	}
	query := r.URL.Query()
	back := 0
	if query.Get("previous") == "true" {
		back = 1
	}
	path, ok := worker.logFile(back)
	if !ok {
		http.Error(w, "the container has no log of this run", http.StatusBadRequest)
		return
	}
	f, err := os.Open(path) // #nosec G304 -- a log of this node
	if err != nil {
		http.Error(w, "the log cannot be opened", http.StatusInternalServerError)
		return
	}
	defer func() { _ = f.Close() }()
	if tail := query.Get("tailLines"); tail != "" {
		lines, err := strconv.Atoi(tail)
		if err != nil || lines < 0 {
			http.Error(w, "tailLines must be a number", http.StatusBadRequest)
			return
		}
		if err := seekTail(f, lines); err != nil {
			http.Error(w, "the log cannot be read", http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	limit := int64(1 << 62)
	if text := query.Get("limitBytes"); text != "" {
		if limit, err = strconv.ParseInt(text, 10, 64); err != nil || limit < 1 {
			http.Error(w, "limitBytes must be a positive number", http.StatusBadRequest)
			return
		}
	}
	written, err := io.CopyN(w, f, limit)
	if err != nil && !errors.Is(err, io.EOF) || query.Get("follow") != "true" {
		return
	}
	follow(r.Context(), w, f, limit-written, func() bool { return worker.writes(path) })
}

// follow copies what is appended to a log until its process has ended.
func follow(ctx context.Context, w http.ResponseWriter, f io.Reader, limit int64, alive func() bool) {
	flush := http.NewResponseController(w)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for limit > 0 {
		last := !alive()
		n, err := io.CopyN(w, f, limit)
		limit -= n
		if err != nil && !errors.Is(err, io.EOF) || flush.Flush() != nil || last {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// seekTail seeks to the start of the last n lines.
func seekTail(f *os.File, n int) error {
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	pos := len(bytes.TrimSuffix(b, []byte("\n")))
	for ; n > 0 && pos >= 0; n-- {
		pos = bytes.LastIndexByte(b[:pos], '\n')
	}
	pos++
	if n > 0 || pos < 0 {
		pos = 0
	}
	_, err = f.Seek(int64(pos), io.SeekStart)
	return err
}

func writeJSON(w http.ResponseWriter, contentType string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(b)
}

func certPool(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the cluster's CA holds no PEM certificate")
	}
	return pool, nil
}
