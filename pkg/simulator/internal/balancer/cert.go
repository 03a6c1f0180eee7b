// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// certView is the API object sslcert. A project's certificate shows the project and its hidden account.
type certView struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Certificate string   `json:"certificate"`
	Account     string   `json:"account"`
	ProjectID   string   `json:"projectid,omitempty"`
	Project     string   `json:"project,omitempty"`
	DomainID    string   `json:"domainid"`
	Domain      string   `json:"domain"`
	Fingerprint string   `json:"fingerprint"`
	Rules       []string `json:"loadbalancerrulelist,omitempty"`
}

func viewCert(c *wire.Call, cert *store.SSLCert) certView {
	o := cert.Owner
	v := certView{
		ID:          cert.UUID,
		Name:        cert.Name,
		Certificate: cert.Certificate,
		Account:     o.Name,
		DomainID:    o.Domain.UUID,
		Domain:      o.Domain.Name,
		Fingerprint: cert.Fingerprint,
	}
	if o.Project != nil {
		v.ProjectID, v.Project = o.Project.UUID, o.Project.Name
	}
	for _, r := range c.St.RulesWith(cert) {
		v.Rules = append(v.Rules, r.UUID)
	}
	return v
}

// uploadSSLCert answers every refusal with status 530 and the text of the cause, regardless of the caller.
func uploadSSLCert(c *wire.Call) (any, error) {
	owner, err := certOwner(c)
	if err != nil {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "%s", wire.AsAPIError(err).Text)
	}
	fingerprint, pair, err := CheckCertificate(c.Str("certificate"), c.Str("privatekey"), c.Now)
	if err != nil {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "%s", err.Error())
	}
	cert := c.St.Certs.Add(&store.SSLCert{
		Entity:      store.Entity{Created: c.Now},
		Name:        c.Str("name"),
		Certificate: c.Str("certificate"),
		Fingerprint: fingerprint,
		Owner:       owner,
		Pair:        pair,
	})
	return wire.Object("sslcert", viewCert(c, cert)), nil
}

// certOwner returns the caller's account, unless the parameters name an account and domain, or a project.
func certOwner(c *wire.Call) (*store.Account, error) {
	if !c.Given("projectid") && (c.Str("account") == "" || !c.Given("domainid")) {
		return c.Caller.Account, nil
	}
	if c.Given("projectid") && c.Str("account") != "" {
		return nil, wire.Invalid("Account and projectId can't be specified together")
	}
	owner, err := c.AddressOwner()
	if err != nil {
		return nil, err
	}
	if !c.Access(owner) {
		return nil, wire.Denied()
	}
	return owner, nil
}

// Java class names with which the texts of wrapped exceptions begin.
const (
	javaInvalid = "com.cloud.exception.InvalidParameterValueException"
	javaDenied  = "com.cloud.exception.PermissionDeniedException"
	javaRuntime = "com.cloud.utils.exception.CloudRuntimeException"
)

// wrapped returns an exception inside another one: status 530 without a CloudStack error code. Only root admins see
// the text.
func wrapped(c *wire.Call, class string, cause *wire.Error) *wire.Error {
	e := c.Internal(0, "%s: %s", class, cause.Text)
	e.CSZero = true
	return e
}

func listSSLCerts(c *wire.Call) (any, error) {
	var certs []*store.SSLCert
	of := func(owner *store.Account) {
		for _, cert := range c.St.Certs.Rows {
			if cert.Owner == owner {
				certs = append(certs, cert)
			}
		}
	}

	switch {
	case c.Given("certid"):
		cert := wire.Arg[*store.SSLCert](c, "certid")
		if cert == nil {
			return nil, wrapped(c, javaInvalid, wire.Invalid("Invalid certificate id: %d", c.Refs["certid"].ID))
		}
		certs = append(certs, cert)

	case c.Given("lbruleid"):
		r := wire.Arg[*store.LBRule](c, "lbruleid")
		if r == nil {
			return nil, wrapped(c, javaInvalid,
				wire.Invalid("Found no loadbalancer with id: %d", c.Refs["lbruleid"].ID))
		}
		if !c.Access(r.Owner()) {
			return nil, wrapped(c, javaDenied, wire.Denied())
		}
		if r.Cert != nil {
			certs = append(certs, r.Cert)
		}

	case c.Given("projectid"):
		p := wire.Arg[*store.Project](c, "projectid")
		if p == nil || p.Removed {
			return nil, wrapped(c, javaInvalid, wire.Invalid("Found no project with id: %s", c.ProjectRef()))
		}
		of(p.Account)

	case c.Given("accountid"):
		of(wire.Arg[*store.Account](c, "accountid"))
	default:
		return nil, wrapped(c, javaInvalid, wire.Invalid("Invalid parameters either certificate ID or Account ID or "+
			"Loadbalancer ID or Project ID required"))
	}

	if len(certs) > 0 && !c.Access(certs[0].Owner) { // without certificates, CloudStack does not check access
		return nil, wrapped(c, javaDenied, wire.Denied())
	}

	return wire.Whole("sslcert", certs, func(cert *store.SSLCert) certView { return viewCert(c, cert) }), nil
}

func deleteSSLCert(c *wire.Call) (any, error) {
	cert := wire.Arg[*store.SSLCert](c, "id")
	if cert == nil {
		return nil, wrapped(c, javaInvalid, wire.Invalid("Invalid certificate id: %d", c.Refs["id"].ID))
	}
	if !c.Access(cert.Owner) {
		return nil, wrapped(c, javaDenied, wire.Denied())
	}
	if used := c.St.RulesWith(cert); len(used) > 0 {
		var names strings.Builder
		for _, r := range used {
			names.WriteString(r.Name + " ")
		}
		return nil, wrapped(c, javaRuntime,
			wire.Errf(wire.CodeInternal, wire.CSRuntime, "Certificate in use by a loadbalancer(s) %s", names.String()))
	}
	c.St.Certs.Delete(cert)
	return wire.Success{Success: true}, nil
}

func assignCertToLoadBalancer(c *wire.Call) (*wire.JobSpec, error) {
	cert := wire.Arg[*store.SSLCert](c, "certid")
	refused := func(*store.LBRule) string { return "Failed to assign certificate to load balancer" }
	return lbJob(c, "lbruleid", refused, func(r *store.LBRule, _ time.Time) (any, error) {
		switch {
		case r.Removed:
			return nil, wire.Invalid("Invalid load balancer id: %d", r.ID)
		case cert == nil || cert.Removed:
			return nil, wire.Invalid("Invalid certificate id: %d", c.Refs["certid"].ID)
		case !c.Access(r.Owner()):
			return nil, wire.Denied()
		case cert.Owner != r.Owner():
			return nil, wire.Invalid("Access denied for account %d", cert.Owner.ID)
		}

		if _, ok := r.Network.LBCapability(catalogue.TLSCapability); !ok || !c.Server.Cat.RouterTLS {
			return nil, wire.Invalid("Ssl termination not supported by the loadbalancer")
		}

		if r.Protocol != "ssl" {
			got := r.Protocol
			if !r.HasProtocol {
				got = "null"
			}
			return nil, wire.Invalid("Bad LB protocol: Expected ssl got %s", got)
		}

		if r.Cert != nil && !c.Boolean("forced") {
			return nil, wire.Invalid("Another certificate is already bound to the LB")
		}

		before := r.Cert
		r.Cert = cert
		if err := apply(c, r, refused(r), func() { r.Cert = before }); err != nil {
			return nil, err
		}

		return wire.Success{Success: true}, nil
	})
}

// parseFailed returns an error with the text that CloudStack puts around errors of its parsers.
func parseFailed(format string, v ...any) error {
	//nolint:staticcheck // the text of CloudStack
	return fmt.Errorf("Parsing certificate/key failed: %s", fmt.Sprintf(format, v...))
}

// CheckCertificate returns the SHA-256 fingerprint of an uploaded certificate and the pair that terminates TLS.
// CloudStack accepts only RSA keys, because of the way it compares the names of algorithms.
func CheckCertificate(certificate, key string, now time.Time) (fingerprint string, pair *tls.Certificate, err error) {
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		return "", nil, errors.New("") // a null pointer exception, whose text is empty
	}

	loaded, err := tls.X509KeyPair(pem.EncodeToMemory(block), []byte(key))
	switch {
	case err != nil && strings.Contains(err.Error(), "private key does not match public key"):
		return "", nil, errors.New("Bad public-private key") //nolint:staticcheck // the text of CloudStack
	case err != nil && strings.Contains(err.Error(), "type does not match"):
		//nolint:staticcheck // the text of CloudStack
		return "", nil, errors.New("Public and private key have different algorithms")
	case err != nil:
		return "", nil, parseFailed("%s", err)
	}

	const javaDate = "Mon Jan 02 15:04:05 MST 2006"
	switch {
	case now.After(loaded.Leaf.NotAfter):
		return "", nil, parseFailed("NotAfter: %s", loaded.Leaf.NotAfter.UTC().Format(javaDate))
	case now.Before(loaded.Leaf.NotBefore):
		return "", nil, parseFailed("NotBefore: %s", loaded.Leaf.NotBefore.UTC().Format(javaDate))
	}

	if _, ok := loaded.PrivateKey.(*rsa.PrivateKey); !ok {
		//nolint:staticcheck // the text of CloudStack
		return "", nil, errors.New("Public and private key have different algorithms")
	}

	sum := sha256.Sum256(loaded.Leaf.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":"), &loaded, nil
}
