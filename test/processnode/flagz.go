// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
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

// serveFlagz answers like Kubernetes 1.36 and later: structured when the media type's
// parameters name the kind, 406 for plain JSON, and otherwise text that is not meant to
// be parsed.
func (n *Node) serveFlagz(w http.ResponseWriter, r *http.Request) {
	version, text := negotiateFlagz(r.Header.Get("Accept"))
	switch {
	case text:
		// The separator is random, so that programs cannot parse the text.
		separator := []string{":", ": ", "=", " "}[rand.IntN(4)] // #nosec G404 -- no secret
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprint(w, "\nkubelet flagz\nWarning: This endpoint is not meant to be machine parseable, "+
			"has no formatting compatibility guarantees and is for debugging purposes only.\n\n")
		flags := n.flags()
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			_, _ = fmt.Fprintf(w, "%s%s%s\n", name, separator, flags[name])
		}
	case version == "":
		http.Error(w, "only the following media types are accepted: text/plain, "+
			"application/json;as=Flagz;v=v1beta1;g=config.k8s.io", http.StatusNotAcceptable)
	default:
		if version == "v1alpha1" {
			w.Header().Set("Warning", `299 - "config.k8s.io/v1alpha1 Flagz is deprecated, use config.k8s.io/v1beta1"`)
		}
		writeJSON(w, "application/json", map[string]any{
			"kind": "Flagz", "apiVersion": "config.k8s.io/" + version,
			"metadata": map[string]any{"name": "kubelet"}, "flags": n.flags(),
		})
	}
}

// negotiateFlagz returns the first acceptable media type of an Accept header: the
// version of the structured form, or text. Neither means that nothing is acceptable.
func negotiateFlagz(accept string) (version string, text bool) {
	if accept == "" {
		return "", true
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		switch media {
		case "text/plain", "*/*":
			return "", true
		case "application/json":
			v := params["v"]
			if params["g"] == "config.k8s.io" && params["as"] == "Flagz" && (v == "v1alpha1" || v == "v1beta1") {
				return v, false
			}
		}
	}
	return "", false
}
