// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

// certificate ends TLS at the router with a certificate, then with another one.
func certificate(e *env) string {
	if !e.endsTLS() {
		must.OK(cannot("the network's load balancer does not end TLS (capability SslTermination, CloudStack 4.22 or newer)"))
	}
	var ids []string
	e.cleanup(func() {
		for _, id := range ids {
			e.do("deleteSslCert", api.Params{"id": id})
		}
	})
	e.cleanup(e.removeAll) // before the certificates, which are in use
	for i := range 2 {
		cert, key := selfSigned(fmt.Sprintf("lb%d.example.org", i))
		params := api.Params{"name": e.world.Name(fmt.Sprintf("cert%d", i)), "certificate": cert, "privatekey": key}
		if e.projectID != "" {
			params["projectid"] = e.projectID
		}
		ids = append(ids, must.Get(e.world.Make(e.ctx, e.world.User, "certificate", "uploadSslCert", params)).Text("id"))
	}
	ip := e.served("web", ports(80, 443), set("ssl-certificate", ids[0]), set("ssl-ports", "443"))
	for _, id := range ids {
		e.edit("web", set("ssl-certificate", id))
		e.rulesAre(ip, "certificate "+id+" to be bound to port 443", func(rules map[string]rule) {
			tls, plain := rules["443"], rules["80"]
			must.Be(tls.Protocol == "ssl" && plain.Protocol == "tcp", "protocols are %q and %q", tls.Protocol, plain.Protocol)
			bound := must.Get(e.world.User.Call(e.ctx, "listSslCerts", api.Params{"lbruleid": tls.ID})).Objects("sslcert")
			must.Be(len(bound) > 0 && bound[0].Text("id") == id, "bound are %v", bound)
		})
	}
	return "TLS on one port of two; another certificate bound in place"
}

// endsTLS reports whether the load balancer of the place's network has the capability SslTermination.
func (e *env) endsTLS() bool {
	params := api.Params{"id": e.network.ID, "listall": "true"}
	if e.projectID != "" {
		params["projectid"] = e.projectID
	}
	for _, network := range must.Get(e.world.User.Call(e.ctx, "listNetworks", params)).Objects("network") {
		for _, service := range network.Objects("service") {
			for _, capability := range service.Objects("capability") {
				if capability.Text("name") == "SslTermination" {
					return strings.EqualFold(capability.Text("value"), "true")
				}
			}
		}
	}
	return false
}

const keyBits = 2048

// selfSigned makes a certificate and its key as PEM.
func selfSigned(host string) (cert, key string) {
	k := must.Get(rsa.GenerateKey(rand.Reader, keyBits))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", must.Get(x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k))),
		text("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(k)))
}
