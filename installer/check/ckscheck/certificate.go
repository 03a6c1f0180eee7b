// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"cmp"
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

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Certificate is one that kubeadm made.
type Certificate struct {
	// Of is SubjectCertificate or SubjectKubeconfig.
	Of                  Subject
	NotBefore, NotAfter time.Time
	// WrongHost says why a server's certificate is not valid for the host of the cluster's endpoint.
	WrongHost error
}

// ExpiryWarning is how long before a certificate's end a warning begins.
const ExpiryWarning = 30 * 24 * time.Hour

// Certificates returns findings about the ends of the certificates, and the names that the API server's is valid for.
func Certificates(f *Facts) []Finding { return f.check((*check).certificates) }

func (c *check) certificates() {
	for i := range c.Certificates {
		cert := &c.Certificates[i]
		object := string(cert.Of)
		end := cert.NotAfter.UTC().Format(time.DateOnly)
		switch {
		case cert.NotBefore.After(c.Now):
			c.add(Error, "certificate-not-yet", object, "set the clocks of the nodes, or of CloudStack's server", "it is valid from %s; CloudStack's clock says %s",
				cert.NotBefore.UTC().Format(time.RFC3339), c.Now.UTC().Format(time.RFC3339))
		case c.Now.After(cert.NotAfter):
			c.add(Error, "certificate-expired", object, c.renew(cert.Of), "it expired on %s", end)
		case !c.Now.Before(cert.NotAfter.Add(-ExpiryWarning)):
			c.add(Warning, "certificate-expires", object, c.renew(cert.Of), "it expires on %s, in %d days; CloudStack does not renew it", end, int(cert.NotAfter.Sub(c.Now)/(24*time.Hour)))
		}
		if cert.WrongHost != nil {
			c.add(Warning, "certificate-host", object, "on each control node: add the address to apiServer.certSANs of a configuration for kubeadm, move /etc/kubernetes/pki/apiserver.crt and .key away, "+
				"run `sudo kubeadm init phase certs apiserver --config FILE` and restart the API server",
				"kubectl refuses it: %v", cert.WrongHost)
		}
	}
}

// renew returns how kubeadm's certificates are renewed. An upgrade renews them too, but only while they are valid.
func (c *check) renew(of Subject) string {
	reach := ""
	if c.Cluster != nil && c.Cluster.IPAddress != "" {
		reach = fmt.Sprintf(" (ssh -p 2222 cloud@%s reaches the first)", c.Cluster.IPAddress)
	}
	remedy := "on each control node" + reach + " run `sudo kubeadm certs renew all`, and restart the node or the Pods of the control plane"
	if of == SubjectKubeconfig {
		return remedy + "; then use /etc/kubernetes/admin.conf of a control node: CloudStack keeps returning the old kubeconfig"
	}
	return remedy + "; while it is still valid, csccm cks upgrade renews it as well"
}

// handshakeTimeout bounds the wait for an API server that does not answer.
const handshakeTimeout = 5 * time.Second

// certificates reads the API server's certificate, and the client certificate in the administrator's kubeconfig.
func (r *reading) certificates(ctx context.Context) {
	keep := func(s Subject, c *Certificate, err error) {
		if err != nil {
			r.Unread[s] = err.Error()
		} else {
			r.Certificates = append(r.Certificates, *c)
		}
	}
	served, err := Serving(ctx, r.Dial, r.Cluster.Endpoint)
	keep(SubjectCertificate, served, err)
	var text string
	read(ctx, r, SubjectKubeconfig, &text, func(ctx context.Context, id string) (string, error) {
		text, err := r.API.KubernetesClusterConfig(ctx, id)
		if cloudstack.IsKind(err, cloudstack.KindUnknown) { // 530: it has none
			r.Unread[SubjectKubeconfig] = "CloudStack has no kubeconfig of the cluster"
			err = nil
		}
		return text, err
	}, r.Cluster.ID)
	if text != "" {
		of, err := clientCertificate(text)
		keep(SubjectKubeconfig, of, err)
	}
}

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
	return &Certificate{SubjectCertificate, leaf.NotBefore, leaf.NotAfter, leaf.VerifyHostname(u.Hostname())}, nil
}

// clientCertificate reads the certificate of a kubeconfig's user. Its error does not quote the file.
func clientCertificate(kubeconfig string) (*Certificate, error) {
	if config, err := clientcmd.Load([]byte(kubeconfig)); err == nil {
		for _, user := range config.AuthInfos {
			block, _ := pem.Decode(user.ClientCertificateData)
			if block == nil {
				continue
			}
			if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
				return &Certificate{Of: SubjectKubeconfig, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}, nil
			}
		}
	}
	return nil, errors.New("the kubeconfig has no client certificate that can be read")
}
