// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/csccm/csccm/test/cloud/api"
)

// certificate ends TLS at the router with a certificate, then with another one.
func certificate(ctx context.Context, e *env) (string, error) {
	var ids []string
	defer func() {
		for _, id := range ids {
			_, _ = e.world.User.Do(context.WithoutCancel(ctx), "deleteSslCert", api.Params{"id": id})
		}
	}()
	for i := range 2 {
		cert, key, err := selfSigned(fmt.Sprintf("lb%d.example.org", i))
		if err != nil {
			return "", err
		}
		params := api.Params{"name": e.world.Name(fmt.Sprintf("cert%d", i)), "certificate": cert, "privatekey": key}
		if e.projectID != "" {
			params["projectid"] = e.projectID
		}
		c, err := e.world.Make(ctx, e.world.User, "certificate", "uploadSslCert", params)
		if err != nil {
			return "", err
		}
		ids = append(ids, c.Text("id"))
	}
	ip, err := e.served(ctx, "web", ports(80, 443), set("ssl-certificate", ids[0]), set("ssl-ports", "443"))
	if err != nil {
		return "", err
	}
	for i, id := range ids {
		if i > 0 {
			if err := e.edit(ctx, "web", set("ssl-certificate", id)); err != nil {
				return "", err
			}
		}
		if err := e.rulesAre(ctx, ip, "certificate "+id+" to be bound to port 443", func(rules map[string]rule) error {
			if rules["443"].Protocol != "ssl" || rules["80"].Protocol != "tcp" {
				return fmt.Errorf("protocols are %q and %q", rules["443"].Protocol, rules["80"].Protocol)
			}
			bound, err := e.bound(ctx, rules["443"].ID)
			if err == nil && bound != id {
				err = fmt.Errorf("bound is %q", bound)
			}
			return err
		}); err != nil {
			return "", err
		}
	}
	return "TLS on one port of two; another certificate bound in place", e.remove(ctx, "web")
}

// bound is the id of the certificate of a rule.
func (e *env) bound(ctx context.Context, ruleID string) (string, error) {
	list, err := e.world.User.Call(ctx, "listSslCerts", api.Params{"lbruleid": ruleID})
	if err != nil {
		return "", err
	}
	certs := list.Objects("sslcert")
	if len(certs) == 0 {
		return "", errors.New("no certificate is bound")
	}
	return certs[0].Text("id"), nil
}

const keyBits = 2048

// selfSigned makes a certificate and its key as PEM.
func selfSigned(host string) (cert, key string, err error) {
	k, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		return "", "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), nil
}
