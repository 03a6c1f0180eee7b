// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is a certificate authority of one control plane.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // the certificate
}

// lifetime is the validity of every certificate; a control plane runs for minutes or a working day.
const lifetime = 30 * 24 * time.Hour

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := template(name, nil)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// issue creates a client certificate for a user and its groups; with hosts it is a
// server certificate as well. Certificate and key are PEM.
func (a *authority) issue(user string, groups []string, hosts ...string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t, err := template(user, groups)
	if err != nil {
		return nil, nil, err
	}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %s: %w", user, err)
	}
	keyPEM, err = encodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), keyPEM, nil
}

func template(cn string, orgs []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: cn, Organization: orgs},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("EC PRIVATE KEY", der), nil
}

// pki holds the certificate authorities of one control plane; dir holds the
// certificates and keys of its components.
type pki struct {
	dir                string
	cluster, frontProx *authority
}

// newPKI writes the certificates and keys of the components to dir, for an API server on host.
func newPKI(dir, host string) (*pki, error) {
	cluster, err := newAuthority("csccm-test-ca")
	if err != nil {
		return nil, err
	}
	front, err := newAuthority("csccm-test-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	p := &pki{dir: dir, cluster: cluster, frontProx: front}
	if err := p.write("ca.crt", cluster.pem); err != nil {
		return nil, err
	}
	caKey, err := encodeKey(cluster.key)
	if err != nil {
		return nil, err
	}
	if err := p.write("ca.key", caKey); err != nil {
		return nil, err
	}
	if err := p.write("front-proxy-ca.crt", front.pem); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		ca     *authority
		file   string
		user   string
		groups []string
		hosts  []string
	}{
		{cluster, "apiserver", "kube-apiserver", nil, []string{
			loopback, host, serviceIP, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}},
		{cluster, "apiserver-kubelet-client", kubeletClient, []string{"system:masters"}, nil},
		{front, "front-proxy-client", "front-proxy-client", nil, nil},
		{cluster, "admin", "csccm-test-admin", []string{"system:masters"}, nil},
		{cluster, "kube-controller-manager", "system:kube-controller-manager", nil, nil},
		{cluster, "kube-scheduler", "system:kube-scheduler", nil, nil},
	} {
		cert, key, err := c.ca.issue(c.user, c.groups, c.hosts...)
		if err != nil {
			return nil, err
		}
		if err := p.write(c.file+".crt", cert); err != nil {
			return nil, err
		}
		if err := p.write(c.file+".key", key); err != nil {
			return nil, err
		}
	}
	return p, p.writeServiceAccountKeys()
}

func (p *pki) writeServiceAccountKeys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := p.write("sa.pub", encode("PUBLIC KEY", public)); err != nil {
		return err
	}
	return p.write("sa.key", private)
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) write(name string, content []byte) error {
	return os.WriteFile(p.path(name), content, 0o600)
}
