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
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failure is the reason why a kubelet's flags could not be read.
type Failure string

// Failures. They differ in their remedy.
const (
	FailureForbidden   Failure = "not permitted to read it through the API server (get nodes/proxy)"
	FailureKubeletAuth Failure = "the kubelet refuses the API server"
	FailureGateOff     Failure = "the kubelet does not serve it (on by default since 1.36, feature gate ComponentFlagz before)"
	FailureNoAddress   Failure = "the node has no address yet, so the API server cannot ask its kubelet"
	FailureUnreachable Failure = "the API server does not reach the kubelet"
	FailureNoNode      Failure = "the node does not exist any more"
	FailureTimeout     Failure = "no answer in time"
	FailureOther       Failure = "not readable"
)

// remedy returns what to do.
func (f Failure) remedy() string {
	switch f {
	case FailureForbidden:
		return "run csccm as a cluster administrator, or grant get on nodes/proxy"
	case FailureKubeletAuth:
		return "check --kubelet-client-certificate of the API server and the kubelet's authorization mode"
	case FailureNoAddress:
		return "install the controller, which gives the node its addresses, and check again"
	case FailureUnreachable, FailureTimeout:
		return "check that the kubelet runs and that port 10250 of the node is open to the control plane"
	case FailureGateOff, FailureNoNode, FailureOther:
	}
	return "look on the node for --cloud-provider=external in the kubelet's command line (ps -o args= -C kubelet)"
}

// mediaTypes are those of /flagz, the newest first: v1beta1 since Kubernetes 1.36, v1alpha1 in 1.35. Older kubelets serve text
// that is not to be parsed, if their feature gate is on at all.
const mediaTypes = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz,application/json;v=v1alpha1;g=config.k8s.io;as=Flagz"

// Answer holds a kubelet's flags, or why they could not be read.
type Answer struct {
	Flags   map[string]string
	Failure Failure // "" if Flags is set
	Detail  string  // details of the failure
}

// maxBody limits the size of an answer, in bytes; all flags of a kubelet are about 10 kB.
const maxBody = 1 << 20

// prober requests flags from kubelets through the API server's node proxy.
type prober struct {
	client *http.Client
	base   *url.URL
}

// ask requests the flags of one kubelet.
func (p *prober) ask(ctx context.Context, node string) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.JoinPath("api/v1/nodes", node, "proxy/flagz").String(), http.NoBody)
	if err != nil {
		return failed(err)
	}
	req.Header.Set("Accept", mediaTypes)
	resp, err := p.client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return failed(fmt.Errorf("answer cut off: %w", err))
	}
	if resp.StatusCode != http.StatusOK {
		return classify(resp.StatusCode, body)
	}
	var answer struct {
		Kind  string            `json:"kind"`
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Kind != "Flagz" || len(answer.Flags) == 0 {
		return Answer{Failure: FailureOther, Detail: "the answer is not a Flagz object with flags"}
	}
	return Answer{Flags: answer.Flags}
}

func failed(err error) Answer {
	var netErr net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout() {
		return Answer{Failure: FailureTimeout}
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL is not useful to the reader
	}
	return Answer{Failure: FailureOther, Detail: err.Error()}
}

// classify returns the failure for an HTTP status other than 200. The API server's own errors are Status objects, the
// kubelet's errors are plain text.
func classify(code int, body []byte) Answer {
	var s metav1.Status
	fromServer := json.Unmarshal(body, &s) == nil && s.Kind == "Status"
	text := firstLine(string(body))
	if fromServer {
		text = s.Message
	}
	f := FailureOther
	switch {
	case strings.Contains(text, "no preferred addresses found"):
		return Answer{Failure: FailureNoAddress}
	case code == http.StatusNotAcceptable: // a kubelet that only serves text
		return Answer{Failure: FailureGateOff}
	case (code == http.StatusForbidden || code == http.StatusUnauthorized) && fromServer:
		f = FailureForbidden
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		f = FailureKubeletAuth
	case code == http.StatusNotFound && fromServer:
		return Answer{Failure: FailureNoNode}
	case code == http.StatusNotFound:
		return Answer{Failure: FailureGateOff}
	case code == http.StatusServiceUnavailable, code == http.StatusBadGateway,
		strings.Contains(text, "error trying to reach service"), strings.Contains(text, "dial tcp"):
		f = FailureUnreachable
	case code == http.StatusGatewayTimeout:
		f = FailureTimeout
	}
	if f == FailureOther {
		text = fmt.Sprintf("HTTP %d: %s", code, text)
	}
	return Answer{Failure: f, Detail: strings.TrimPrefix(text, "error trying to reach service: ")}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	const enough = 200
	if len(s) > enough {
		s = s[:enough]
	}
	return s
}
