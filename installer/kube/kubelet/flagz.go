// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// failure is the reason why a kubelet's flags could not be read, and what to do.
type failure struct{ what, fix string }

// at returns the evidence for a failure, which proves nothing.
func (f failure) at(source, detail string) Evidence {
	return Evidence{source, strings.TrimSuffix(f.what+": "+detail, ": "), Unknown, f.fix}
}

const (
	fixPort = "check that the kubelet runs and that port 10250 of the node is open to the control plane"
	fixLook = "look on the node for --cloud-provider=external in the kubelet's command line (ps -o args= -C kubelet)"
)

var (
	forbidden = failure{
		"not permitted to read it through the API server (get nodes/proxy)",
		"run csccm as a cluster administrator, or grant get on nodes/proxy",
	}
	kubeletAuth = failure{
		"the kubelet refuses the API server",
		"check --kubelet-client-certificate of the API server and the kubelet's authorization mode",
	}
	noAddress = failure{
		"the node has no address yet, so the API server cannot ask its kubelet",
		"install the controller, which gives the node its addresses, and check again",
	}
	flagzDisabled = failure{
		"the kubelet does not serve it (on by default since 1.36, feature gate ComponentFlagz before)",
		fixLook,
	}
	unreachable = failure{"the API server does not reach the kubelet", fixPort}
	timedOut    = failure{"no answer in time", fixPort}
	unreadable  = failure{"not readable", fixLook}
)

// mediaTypes are the media types of /flagz, the newest first: v1beta1 since Kubernetes 1.36, v1alpha1 in 1.35. Older
// kubelets serve only text, and that only with the feature gate on; the text is not meant to be parsed.
const mediaTypes = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz," +
	"application/json;v=v1alpha1;g=config.k8s.io;as=Flagz"

const sourceFlagz = "/flagz"

// maxBody limits the size of an answer, in bytes; all flags of a kubelet are about 10 kB.
const maxBody = 1 << 20

// prober requests flags from kubelets through the API server's node proxy.
type prober struct {
	client *http.Client
	base   *url.URL
}

// ask requests the flags of one kubelet.
func (p *prober) ask(ctx context.Context, node string) Evidence {
	if p == nil {
		return unreadable.at(sourceFlagz, "no connection to the API server")
	}

	ctx, cancel := context.WithTimeout(ctx, perKubelet)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		p.base.JoinPath("api/v1/nodes", node, "proxy/flagz").String(), http.NoBody)
	if err != nil {
		return unreadable.at(sourceFlagz, err.Error())
	}

	req.Header.Set("Accept", mediaTypes)
	resp, err := p.client.Do(req)
	var body []byte
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	}

	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the URL is not useful to the reader
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return timedOut.at(sourceFlagz, "")
	case err != nil:
		return unreadable.at(sourceFlagz, err.Error())
	case resp.StatusCode != http.StatusOK:
		return classify(resp.StatusCode, body)
	}

	var answer struct {
		Kind  string            `json:"kind"`
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Kind != "Flagz" || len(answer.Flags) == 0 {
		return unreadable.at(sourceFlagz, "the answer is not a Flagz object with flags")
	}

	return fromFlags(sourceFlagz, answer.Flags)
}

// classify returns the failure for an HTTP status other than 200. The API server's own errors are Status objects, the
// kubelet's errors are plain text.
func classify(code int, body []byte) Evidence {
	var s metav1.Status
	fromServer := json.Unmarshal(body, &s) == nil && s.Kind == "Status"
	text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	if fromServer {
		text = s.Message
	}

	refused := code == http.StatusForbidden || code == http.StatusUnauthorized
	switch {
	case strings.Contains(text, "no preferred addresses found"):
		return noAddress.at(sourceFlagz, "")
	// A kubelet that serves only text answers 406; one without /flagz answers 404.
	case code == http.StatusNotAcceptable, code == http.StatusNotFound && !fromServer:
		return flagzDisabled.at(sourceFlagz, "")
	case refused && fromServer:
		return forbidden.at(sourceFlagz, text)
	case refused:
		return kubeletAuth.at(sourceFlagz, text)
	case code >= http.StatusBadGateway, strings.Contains(text, "error trying to reach service"),
		strings.Contains(text, "dial tcp"):
		return unreachable.at(sourceFlagz, strings.TrimPrefix(text, "error trying to reach service: "))
	}

	return unreadable.at(sourceFlagz, fmt.Sprintf("HTTP %d: %.200s", code, text))
}

// Limits of Verify. A kubelet normally answers within milliseconds. If a firewall drops the API server's packets to all
// kubelets, Verify must still end before the time-out of the check that calls it (20 s), so that the verdicts can be
// based on the Node objects.
const (
	workers     = 32
	perKubelet  = 5 * time.Second
	allKubelets = 15 * time.Second
)

// Verify returns the verdicts on the kubelets of nodes, in the same order. It requests the flags of many kubelets at
// the same time through the API server. It waits at most 5 s for one kubelet and 15 s for all of them; a kubelet that
// does not answer is not an error. If o is not nil, it also runs a probe Pod on each node whose verdict is Unknown.
func Verify(ctx context.Context, c *cluster.Cluster, nodes []corev1.Node, o *ProbeOptions) []NodeVerdict {
	// Ignore the error: the distribution only determines the remedy, and there is a generic one.
	distribution, _, _ := c.Distribution(ctx, nodes)
	verdicts := verify(ctx, newProber(c), distribution, nodes)
	if o == nil {
		return verdicts
	}

	_, _ = cluster.Each(ctx, verdicts, func(ctx context.Context, v *NodeVerdict) (none struct{}, _ error) {
		if v.Verdict == Unknown {
			e := probe(ctx, c, *o, v.Node)
			e.fix = "" // keep the remedy of /flagz
			v.Evidence = append([]Evidence{e}, v.Evidence...)
			v.settle(distribution)
		}
		return none, nil
	})
	return verdicts
}

// newProber returns nil if there is no connection to the API server.
func newProber(c *cluster.Cluster) *prober {
	if c.REST == nil { // in tests
		return nil
	}
	client, err := rest.HTTPClientFor(c.REST)
	base, _, berr := rest.DefaultServerUrlFor(c.REST)
	if err != nil || berr != nil {
		return nil
	}
	return &prober{client, base}
}

func verify(ctx context.Context, p *prober, d cluster.Distribution, nodes []corev1.Node) []NodeVerdict {
	controllerDisabled := slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		_, argv := nodeArgs(&n)
		return disabled(argv)
	})

	ctx, cancelAll := context.WithTimeout(ctx, allKubelets)
	defer cancelAll()
	out := make([]NodeVerdict, len(nodes))
	// Ignore the cancellation of ctx, so that every node gets a verdict.
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), workers, len(nodes), func(i int) {
		out[i] = Judge(Facts{
			Node:                    &nodes[i],
			Flagz:                   p.ask(ctx, nodes[i].Name),
			Distribution:            d,
			CloudControllerDisabled: controllerDisabled,
		})
	})
	return out
}
