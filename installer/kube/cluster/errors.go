// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Error is a failure to work with the cluster, with the way to go on.
type Error struct {
	What string // one line: the thing and what is wrong with it
	Fix  string // one line: what would be right
	Err  error  // cause, if any
}

// Error implements error.
func (e *Error) Error() string { return e.What }

// Remedy is one line that says what to do.
func (e *Error) Remedy() string { return e.Fix }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var errNoKubeconfig = &Error{
	What: "no kubeconfig: no cluster to talk to",
	Fix:  "set KUBECONFIG, or give --kubeconfig FILE or --server URL",
}

// noCluster names the files that were asked for, if any were, and hold no cluster.
func noCluster(explicit, environment string) error {
	from, files := "--kubeconfig", []string{explicit}
	if explicit == "" {
		if environment == "" {
			return errNoKubeconfig
		}
		from, files = "KUBECONFIG", filepath.SplitList(environment)
	}
	what := fmt.Sprintf("no kubeconfig: %s names %s, which has no cluster", from, strings.Join(files, ", "))
	if !slices.ContainsFunc(files, func(file string) bool { _, err := os.Stat(file); return err == nil }) {
		what = fmt.Sprintf("no kubeconfig: %s names %s, which does not exist", from, strings.Join(files, ", "))
	}
	return &Error{What: what, Fix: "correct KUBECONFIG, or give --kubeconfig FILE or --server URL", Err: errNoKubeconfig}
}

func explainCall(server string, err error) error {
	what := func(format string, args ...any) string {
		return fmt.Sprintf("Kubernetes API %s: ", server) + fmt.Sprintf(format, args...)
	}
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		dns       *net.DNSError
		op        *net.OpError
	)
	switch {
	case apierrors.IsUnauthorized(err):
		return &Error{what("credentials are not accepted (401)"), "log in again, or check the user of this context in the kubeconfig", err}
	case apierrors.IsForbidden(err):
		return &Error{what("%s", forbidden(err)), "use a kubeconfig of a cluster administrator, or have the right granted", err}
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return &Error{what("no answer in time"), "check the network, a VPN or a firewall on the way, or raise --timeout", err}
	case errors.Is(err, context.Canceled):
		return &Error{what("not asked to the end: interrupted"), "", err}
	case errors.As(err, &authority):
		return &Error{what("its certificate is signed by an unknown authority"), "check certificate-authority-data in the kubeconfig; it may belong to another cluster", err}
	case errors.As(err, &hostname):
		return &Error{what("its certificate is not valid: %v", hostname), "use a server name of the certificate (--server, --tls-server-name), or renew it", err}
	case errors.As(err, &invalid):
		return &Error{what("its certificate is not valid: %v", invalid), "renew it", err}
	case errors.As(err, &dns):
		return &Error{what("host name %q is not known", dns.Name), "check the server URL of this context, and DNS", err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Error{what("connection refused"), "check that the API server runs and that the server URL of this context is right", err}
	case errors.As(err, &op):
		return &Error{what("not reachable: %v", op.Err), "check the server URL of this context and the network", err}
	}
	var u *url.Error
	if errors.As(err, &u) {
		return &Error{what("not reachable: %v", u.Err), "check the server URL of this context and the network", err}
	}
	return err
}

// forbidden is the API server's reason, which names user, verb and resource.
func forbidden(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		if m := status.Status().Message; m != "" && m != "unknown" {
			return m
		}
	}
	return "not permitted (403)"
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout() || apierrors.IsTimeout(err) ||
		strings.Contains(err.Error(), "Client.Timeout exceeded") ||
		strings.Contains(err.Error(), "would exceed context deadline") // client-go's limiter, which has no type for it
}
