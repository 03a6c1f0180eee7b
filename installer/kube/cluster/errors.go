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

// Error is an error of working with the cluster, with a remedy.
type Error struct{ Problem }

// Problem has the text of an error and its remedy.
type Problem = report.Error //nolint:errname // embedded as Error it would hide its method

// newError returns an *Error with a remedy. format and args are those of fmt.Errorf.
func newError(fix, format string, args ...any) *Error {
	return &Error{*report.Errorf(fix, format, args...)}
}

// Explain converts errors of the API server and of the connection to it to an *Error with a remedy. It returns nil,
// errors that already have a remedy, errors of CloudStack, and all errors of a command without a cluster unchanged.
// Errors are explained at the end of a command or of one of its steps; the functions that they call need not do it.
func (c *Cluster) Explain(err error) error {
	var known interface{ Remedy() string }
	var cloud *cloudstack.Error // a network error of CloudStack says nothing about the API server
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
		return newError("use a kubeconfig of a cluster administrator, or ask for the permission",
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

// partError is an error that shows only a part of the text of another error.
type partError struct {
	error
	whole error
}

// Unwrap returns the whole error.
func (e partError) Unwrap() error { return e.whole }

// remedyUnready is for an API server that answers but is not ready.
const remedyUnready = "wait until the API server is ready; if it stays so, look at the log of the API server " +
	"and at etcd, " +
	"and at a load balancer before them"

func isTimeout(err error) bool {
	var t interface{ Timeout() bool } // also context.DeadlineExceeded
	return errors.As(err, &t) && t.Timeout() || apierrors.IsTimeout(err) ||
		strings.Contains(err.Error(), "Client.Timeout exceeded") ||
		strings.Contains(err.Error(), "would exceed context deadline") // client-go's rate limiter has no error type
}
