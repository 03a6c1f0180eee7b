// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// handshakeTimeout bounds the wait for an API server that does not answer.
const handshakeTimeout = 5 * time.Second

// certificates reads the API server's certificate, and the client certificate in the administrator's kubeconfig.
func (r *reading) certificates(ctx context.Context) {
	if c, err := Serving(ctx, r.Dial, r.f.Cluster.Endpoint); err != nil {
		r.f.Unread[preflight.SubjectCertificate] = err.Error()
	} else {
		r.f.Certificates = append(r.f.Certificates, *c)
	}
	var text string
	into(r, preflight.SubjectKubeconfig, &text, func() (string, error) {
		text, err := r.API.KubernetesClusterConfig(ctx, r.f.Cluster.ID)
		if cloudstack.IsKind(err, cloudstack.KindUnknown) { // 530: it has none
			r.f.Unread[preflight.SubjectKubeconfig] = "CloudStack has no kubeconfig of the cluster"
			return "", nil
		}
		return text, err
	})
	if text == "" {
		return
	}
	if c, err := clientCertificate(text); err != nil {
		r.f.Unread[preflight.SubjectKubeconfig] = err.Error()
	} else {
		r.f.Certificates = append(r.f.Certificates, *c)
	}
}

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Serving reads the certificate that an API server shows. It is not verified: only its dates and names are of interest, and
// nothing is sent. dial is nil for the network.
func Serving(ctx context.Context, dial Dial, endpoint string) (*preflight.Certificate, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the cluster has no endpoint (%q)", endpoint)
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "443")
	}
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
	out := &preflight.Certificate{Of: preflight.SubjectCertificate, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Host: u.Hostname(), Names: leaf.DNSNames}
	for _, ip := range leaf.IPAddresses {
		out.Names = append(out.Names, ip.String())
	}
	return out, nil
}

// clientCertificate reads the certificate of a kubeconfig's user.
func clientCertificate(kubeconfig string) (*preflight.Certificate, error) {
	unreadable := errors.New("the kubeconfig has no client certificate that can be read")
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return nil, unreadable // the parser's error could show a part of the file
	}
	for _, user := range config.AuthInfos {
		block, _ := pem.Decode(user.ClientCertificateData)
		if block == nil {
			continue
		}
		if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
			return &preflight.Certificate{Of: preflight.SubjectKubeconfig, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}, nil
		}
	}
	return nil, unreadable
}
