// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Error is a failure to work with the cluster, with the way to go on.
type Error struct{ Problem }

// Problem says what is wrong, and what to do.
type Problem = report.Error //nolint:errname // embedded as Error it would hide its method

// newError returns the error of something that is wrong. The text follows fmt.Errorf.
func newError(fix, format string, args ...any) *Error {
	return &Error{*report.Errorf(fix, format, args...)}
}

// Explain turns an error of the API server or of the way there into an *Error with a remedy. It returns nil, an error
// that has a remedy already, and all errors of a command without a cluster as they are. Errors of a command and of its
// steps are explained where these end; what they call need not do it.
func (c *Cluster) Explain(err error) error {
	var known interface{ Remedy() string }
	var cloud *cloudstack.Error // the network beyond it is not the way to the API server
	if c == nil || err == nil || errors.As(err, &known) || errors.As(err, &cloud) {
		return err
	}

	var certificate *tls.CertificateVerificationError
	var call *url.Error
	var op *net.OpError
	what := "Kubernetes API " + c.Server
	if errors.As(err, &call) {
		err = partError{call.Err, err}
	}

	switch {
	case apierrors.IsUnauthorized(err):
		return newError("log in again, or check the user of this context in the kubeconfig", "%s (401): %w", what, err)
	case apierrors.IsForbidden(err):
		return newError("use a kubeconfig of a cluster administrator, or have the right granted",
			"%s (403): %w", what, err)
	case apierrors.IsServiceUnavailable(err):
		return newError(remedyUnready, "%s (503): %w", what, err)
	case isTimeout(err):
		return newError("check the network, a VPN or a firewall on the way, or raise --timeout and --request-timeout",
			"%s: %w", what, partError{errors.New("no answer in time"), err})
	case errors.Is(err, context.Canceled):
		return newError("", "%s: %w", what, partError{errors.New("interrupted"), err})
	case errors.As(err, &certificate):
		return newError(
			"check certificate-authority-data in the kubeconfig, which may belong to another cluster, and "+
				"--tls-server-name",
			"%s: %w", what, err)

	case call != nil, errors.As(err, &op):
		return newError("check that the API server runs, the server URL of this context, and the network",
			"%s: %w", what, err)
	}

	return err
}

// partError is an error whose text is that of a part of it.
type partError struct {
	error
	whole error
}

// Unwrap returns all of it.
func (e partError) Unwrap() error { return e.whole }

// remedyUnready is for an API server that answers, and cannot work.
const remedyUnready = "wait until the API server is ready; if it stays so, look at the log of the API server " +
	"and at etcd, " +
	"and at a load balancer before them"

func isTimeout(err error) bool {
	var t interface{ Timeout() bool } // context.DeadlineExceeded has it, too
	return errors.As(err, &t) && t.Timeout() || apierrors.IsTimeout(err) ||
		strings.Contains(err.Error(), "Client.Timeout exceeded") ||
		strings.Contains(err.Error(), "would exceed context deadline") // client-go's limiter, which has no type for it
}
