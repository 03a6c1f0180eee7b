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
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failure is the reason why a kubelet's flags could not be read.
type Failure string

// Failures. They differ in their remedy.
const (
	FailureForbidden   Failure = "forbidden"         // the caller lacks get nodes/proxy
	FailureKubeletAuth Failure = "kubelet-forbidden" // the kubelet refuses the API server
	FailureGateOff     Failure = "gate-off"          // no /flagz: Kubernetes before 1.36, or feature gate ComponentFlagz is off
	FailureNoAddress   Failure = "no-address"        // the Node has no address yet
	FailureUnreachable Failure = "unreachable"       // the API server does not reach the kubelet
	FailureNoNode      Failure = "no-node"           // the Node does not exist
	FailureTimeout     Failure = "timeout"
	FailureOther       Failure = "other"
)

const (
	lookOnNode = "look on the node for --cloud-provider=external in the kubelet's command line (ps -o args= -C kubelet)"
	checkPort  = "check that the kubelet runs and that port 10250 of the node is open to the control plane"
)

// failureTexts has what each failure means and what to do.
var failureTexts = map[Failure]struct{ text, remedy string }{
	FailureForbidden: {
		"not permitted to read it through the API server (get nodes/proxy)", "run csccm as a cluster administrator, or grant get on nodes/proxy",
	},
	FailureKubeletAuth: {
		"the kubelet refuses the API server", "check --kubelet-client-certificate of the API server and the kubelet's authorization mode",
	},
	FailureGateOff: {"the kubelet does not serve it (on by default since 1.36, feature gate ComponentFlagz before)", lookOnNode},
	FailureNoAddress: {
		"the node has no address yet, so the API server cannot ask its kubelet", "install the controller, which gives the node its addresses, and check again",
	},
	FailureUnreachable: {"the API server does not reach the kubelet", checkPort},
	FailureNoNode:      {"the node does not exist any more", lookOnNode},
	FailureTimeout:     {"no answer in time", checkPort},
	FailureOther:       {"not readable", lookOnNode},
}

// Media types of /flagz, newest first: v1beta1 since Kubernetes 1.36, v1alpha1 in 1.35, text in 1.32 to 1.34.
const (
	formV1Beta1  = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"
	formV1Alpha1 = "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz"
	formText     = "text/plain"
)

// Answer holds a kubelet's flags, or why they could not be read.
type Answer struct {
	Flags   map[string]string
	Form    string  // one of the media types above, or formProbe
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
	var a Answer
	for _, form := range []string{formV1Beta1, formV1Alpha1, formText} {
		code, body, err := p.get(ctx, node, form)
		if err != nil {
			return failed(err)
		}
		if code == http.StatusOK {
			flags, err := parse(form, body)
			if err == nil {
				return Answer{Flags: flags, Form: form}
			}
			a = Answer{Failure: FailureOther, Detail: err.Error()}
			continue
		}
		a = classify(code, body)
		if code != http.StatusNotAcceptable {
			return a
		}
	}
	return a
}

func (p *prober) get(ctx context.Context, node, accept string) (code int, body []byte, err error) {
	u := p.base.JoinPath("api/v1/nodes", node, "proxy/flagz")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("node %q: %w", node, err)
	}
	req.Header.Set("Accept", accept)
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return 0, nil, fmt.Errorf("answer cut off: %w", err)
	}
	return resp.StatusCode, body, nil
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

func parse(form string, body []byte) (map[string]string, error) {
	if form == formText {
		return parseText(string(body))
	}
	var answer struct {
		Kind  string            `json:"kind"`
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("answer is not a Flagz object in JSON: %w", err)
	}
	if answer.Kind != "Flagz" || len(answer.Flags) == 0 {
		return nil, fmt.Errorf("answer is not a Flagz object: kind %q with %d flags", answer.Kind, len(answer.Flags))
	}
	return answer.Flags, nil
}

// textFlag matches the relevant flags in the text format. The kubelet chooses the delimiter at random among these
// four, to discourage parsing; the names of the flags are fixed.
var textFlag = regexp.MustCompile(`(?m)^(cloud-provider|node-ip|hostname-override|provider-id|register-with-taints|root-dir)(?:: |:|=| )(.*)$`)

func parseText(body string) (map[string]string, error) {
	flags := map[string]string{}
	for _, m := range textFlag.FindAllStringSubmatch(body, -1) {
		flags[m[1]] = strings.Trim(strings.TrimSpace(m[2]), `"`)
	}
	if len(flags) == 0 {
		return nil, errors.New("answer is not Flagz in text format")
	}
	return flags, nil
}
