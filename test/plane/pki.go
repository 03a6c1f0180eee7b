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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/csccm/csccm/test/internal/must"
)

// authority is a certificate authority of one control plane.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // the certificate
}

// lifetime is the validity of every certificate; a control plane runs for minutes or a working day.
const lifetime = 30 * 24 * time.Hour

func newAuthority(name string) (_ *authority, err error) {
	defer must.Return(&err)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ca := must.Get(cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key))
	return &authority{cert: ca, key: key, pem: encode(cert.CertificateBlockType, ca.Raw)}, nil
}

// issue creates a client certificate for a user and its groups. With hosts it is a server certificate as well.
// Certificate and key are PEM.
func (a *authority) issue(user string, groups []string, hosts ...string) (certPEM, keyPEM []byte, err error) {
	defer must.Return(&err)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	t := &x509.Certificate{
		SerialNumber: must.Get(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}

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

	der := must.Get(x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key))
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return encode(cert.CertificateBlockType, der), keyPEM, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pki holds the certificate authority of the cluster; dir holds the certificates and keys of its components.
type pki struct {
	dir     string
	cluster *authority
}

// newPKI writes the certificates and keys of the components to dir, for an API server on host.
func newPKI(dir, host string) (_ *pki, err error) {
	defer must.Return(&err)
	cluster := must.Get(newAuthority("csccm-test-ca"))
	accounts := must.Get(newAuthority("csccm-test-service-accounts")) // only the key of this authority is used
	files := map[string][]byte{"ca.crt": cluster.pem}
	for name, key := range map[string]*ecdsa.PrivateKey{"ca.key": cluster.key, "sa.key": accounts.key} {
		files[name] = must.Get(keyutil.MarshalPrivateKeyToPEM(key))
	}

	files["sa.pub"] = encode(keyutil.PublicKeyBlockType, must.Get(x509.MarshalPKIXPublicKey(accounts.key.Public())))
	names := []string{loopback, host, serviceIP, "localhost", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc"}
	server, serverKey := must.Get2(cluster.issue("kube-apiserver", nil, names...))
	client, clientKey := must.Get2(cluster.issue(KubeletClient, []string{masters}))
	files["apiserver.crt"], files["apiserver.key"] = server, serverKey
	files["apiserver-kubelet-client.crt"], files["apiserver-kubelet-client.key"] = client, clientKey
	p := &pki{dir: dir, cluster: cluster}
	for name, content := range files {
		must.OK(os.WriteFile(p.path(name), content, 0o600))
	}

	return p, nil
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }
