// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/csccm/csccm/test/plane"
)

// handler serves the supported part of the kubelet API. Only the API server has access.
func (n *Node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	if !n.o.NoFlagz {
		mux.HandleFunc("GET /flagz", n.serveFlagz)
	}
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.VerifiedChains[0][0].Subject.CommonName != plane.KubeletClient {
			http.Error(w, "Forbidden", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// flags returns the command line flags of this node's kubelet.
func (n *Node) flags() map[string]string {
	provider := "external"
	if n.o.NotExternal {
		provider = ""
	}
	return map[string]string{
		"bootstrap-kubeconfig": "", "cloud-provider": provider, "config": "/var/lib/kubelet/config.yaml",
		"hostname-override": n.o.Name, "kubeconfig": "/etc/kubernetes/kubelet.conf", "node-ip": n.o.Address,
		"node-labels": "", "provider-id": "", "register-node": "true", "register-with-taints": "", "v": "2",
	}
}

// serveFlagz answers like Kubernetes 1.36 and later: structured when the media type's parameters name the kind, 406 for plain
// JSON, and otherwise text that is not meant to be parsed.
func (n *Node) serveFlagz(w http.ResponseWriter, r *http.Request) {
	for part := range strings.SplitSeq(cmp.Or(r.Header.Get("Accept"), "*/*"), ",") {
		media, params, _ := mime.ParseMediaType(part)
		switch version := params["v"]; {
		case media == "text/plain" || media == "*/*":
			_, _ = fmt.Fprint(w, "\nkubelet flagz\nWarning: This endpoint is not meant to be machine parseable, "+
				"has no formatting compatibility guarantees and is for debugging purposes only.\n\n")
			// As of a kubelet: random, so that programs cannot parse the text.
			separator := []string{":", ": ", "=", " "}[rand.IntN(4)] // #nosec G404 -- no secret
			for name, value := range n.flags() {
				_, _ = fmt.Fprintf(w, "%s%s%s\n", name, separator, value)
			}
			return
		case media == "application/json" && params["g"] == "config.k8s.io" && params["as"] == "Flagz" &&
			(version == "v1alpha1" || version == "v1beta1"):
			w.Header().Set("Content-Type", media)
			_ = json.NewEncoder(w).Encode(map[string]any{
				"kind": "Flagz", "apiVersion": "config.k8s.io/" + version, "metadata": map[string]any{"name": "kubelet"}, "flags": n.flags(),
			})
			return
		}
	}
	http.Error(w, "accepted are text/plain, application/json;as=Flagz;v=v1beta1;g=config.k8s.io", http.StatusNotAcceptable)
}

// serveLogs answers kubectl logs with the log of the latest run; of its options it supports tailLines.
func (n *Node) serveLogs(w http.ResponseWriter, r *http.Request) {
	path, ok := n.PodLog(r.PathValue("namespace"), r.PathValue("pod"))
	text, err := os.ReadFile(path) // #nosec G304 -- a log of this node
	if !ok || err != nil {
		http.Error(w, "no log of pod "+r.PathValue("pod")+" on this node", http.StatusNotFound)
		return
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		lines = lines[max(0, len(lines)-1-n):] // the last is empty, after the end of the last line
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(bytes.Join(lines, nil)) // #nosec G705 -- plain text
}
