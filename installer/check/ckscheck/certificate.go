// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"time"
)

// Certificate is that of an API server.
type Certificate struct {
	NotBefore, NotAfter time.Time
	// WrongHost says why it is not valid for the host of the cluster's endpoint.
	WrongHost error
}

// ExpiryWarning is how long before a certificate's end a warning begins.
const ExpiryWarning = 30 * 24 * time.Hour

// Certificates returns findings about the end of the API server's certificate, and the names that it is valid for.
func Certificates(f *Facts) []Finding { return f.check((*check).certificate) }

func (c *check) certificate() {
	cert, object := c.Certificate, string(SubjectCertificate)
	if cert == nil {
		return
	}
	reach := ""
	if c.Cluster.IPAddress != "" {
		reach = fmt.Sprintf(" (ssh -p %d cloud@%s reaches the first)", sshPort, c.Cluster.IPAddress)
	}
	// An upgrade renews it too, but only while it is valid.
	renew := "on each control node" + reach + " run `sudo kubeadm certs renew all`, and restart the node or the Pods of the control plane; " +
		"while it is still valid, csccm cks upgrade renews it as well"
	end := cert.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case cert.NotBefore.After(c.Now):
		c.add(Error, "certificate-not-yet", object, "set the clocks of the nodes, or of CloudStack's server", "it is valid from %s; CloudStack's clock says %s",
			cert.NotBefore.UTC().Format(time.RFC3339), c.Now.UTC().Format(time.RFC3339))
	case c.Now.After(cert.NotAfter):
		c.add(Error, "certificate-expired", object, renew, "it expired on %s", end)
	case !c.Now.Before(cert.NotAfter.Add(-ExpiryWarning)):
		c.add(Warning, "certificate-expires", object, renew, "it expires on %s, in %d days; CloudStack does not renew it", end, int(cert.NotAfter.Sub(c.Now)/(24*time.Hour)))
	}
	if cert.WrongHost != nil {
		c.add(Warning, "certificate-host", object, "on each control node: add the address to apiServer.certSANs of a configuration for kubeadm, move /etc/kubernetes/pki/apiserver.crt and .key away, "+
			"run `sudo kubeadm init phase certs apiserver --config FILE` and restart the API server",
			"kubectl refuses it: %v", cert.WrongHost)
	}
}

// handshakeTimeout bounds the wait for an API server that does not answer.
const handshakeTimeout = 5 * time.Second

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Serving reads the certificate that an API server shows. It is not verified: only its dates and names are of interest, and
// nothing is sent. dial is nil for the network.
func Serving(ctx context.Context, dial Dial, endpoint string) (*Certificate, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the cluster has no endpoint (%q)", endpoint)
	}
	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the API server at %s does not answer: %w", address, err)
	}
	defer func() { _ = conn.Close() }()
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}) //nolint:gosec // see above
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("the API server at %s refuses TLS: %w", address, err)
	}
	leaf := secure.ConnectionState().PeerCertificates[0]
	return &Certificate{leaf.NotBefore, leaf.NotAfter, leaf.VerifyHostname(u.Hostname())}, nil
}
