// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"strings"
)

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
		media, params, err := mime.ParseMediaType(part)
		version := params["v"]
		switch {
		case err != nil:
		case media == "text/plain" || media == "*/*":
			// The separator is random, so that programs cannot parse the text.
			separator := []string{":", ": ", "=", " "}[rand.IntN(4)] // #nosec G404 -- no secret
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = fmt.Fprint(w, "\nkubelet flagz\nWarning: This endpoint is not meant to be machine parseable, "+
				"has no formatting compatibility guarantees and is for debugging purposes only.\n\n")
			flags := n.flags()
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				_, _ = fmt.Fprintf(w, "%s%s%s\n", name, separator, flags[name])
			}
			return
		case media == "application/json" && params["g"] == "config.k8s.io" && params["as"] == "Flagz" && (version == "v1alpha1" || version == "v1beta1"):
			writeJSON(w, map[string]any{
				"kind": "Flagz", "apiVersion": "config.k8s.io/" + version, "metadata": map[string]any{"name": "kubelet"}, "flags": n.flags(),
			})
			return
		}
	}
	http.Error(w, "only the following media types are accepted: text/plain, "+
		"application/json;as=Flagz;v=v1beta1;g=config.k8s.io", http.StatusNotAcceptable)
}
