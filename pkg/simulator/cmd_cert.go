// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

var certRefs = map[string]refKind{"id": refSSLCert, "certid": refSSLCert, "lbruleid": refRule}

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
	Chain       *string  `json:"certchain,omitempty"`
	Fingerprint string   `json:"fingerprint"`
	Rules       []string `json:"loadbalancerrulelist,omitempty"`
}

func (c *call) viewCert(cert *sslCert) certView {
	o := cert.owner
	v := certView{
		ID: cert.uuid, Name: cert.name, Certificate: cert.certificate, Account: o.name, DomainID: o.domain.uuid, Domain: o.domain.name,
		Fingerprint: cert.fingerprint,
	}
	if o.project != nil {
		v.ProjectID, v.Project = o.project.uuid, o.project.name
	}
	if cert.hasChain {
		v.Chain = ptr(cert.chain)
	}
	for _, r := range c.st.rulesWith(cert) {
		v.Rules = append(v.Rules, r.uuid)
	}
	return v
}

type certAnswer struct {
	Cert certView `json:"sslcert"`
}

// uploadSSLCert answers every refusal with status 530 and the text of the cause, regardless of the caller.
func uploadSSLCert(c *call) (any, error) {
	owner, err := c.certOwner()
	if err != nil {
		return nil, errf(codeInternal, csGeneric, "%s", asAPIError(err).text)
	}
	fingerprint, pair, err := checkCertificate(certUpload{
		certificate: c.str("certificate"), key: c.str("privatekey"), password: c.str("password"), hasPassword: c.has("password"),
		chain: c.str("certchain"), hasChain: c.has("certchain"), revocation: c.boolOr("enabledrevocationcheck", true),
	}, c.now)
	if err != nil {
		return nil, errf(codeInternal, csGeneric, "%s", err.Error())
	}
	cert := c.st.certs.add(&sslCert{
		entity: entity{created: c.now}, name: c.str("name"), certificate: c.str("certificate"), chain: c.str("certchain"),
		hasChain: c.has("certchain"), fingerprint: fingerprint, owner: owner, pair: pair,
	})
	return certAnswer{c.viewCert(cert)}, nil
}

// certOwner returns the caller's account, unless the parameters name an account and domain, or a project.
func (c *call) certOwner() (*account, error) {
	if !c.given("projectid") && (c.str("account") == "" || !c.given("domainid")) {
		return c.caller.account, nil
	}
	if c.given("projectid") && c.str("account") != "" {
		return nil, invalid("Account and projectId can't be specified together")
	}
	owner, err := c.addressOwner()
	if err != nil {
		return nil, err
	}
	if !c.access(owner) {
		return nil, denied()
	}
	return owner, nil
}

// Java class names with which the texts of wrapped exceptions begin.
const (
	javaInvalid = "com.cloud.exception.InvalidParameterValueException"
	javaDenied  = "com.cloud.exception.PermissionDeniedException"
	javaRuntime = "com.cloud.utils.exception.CloudRuntimeException"
)

// wrapped returns an exception inside another one: status 530 without a code. Only root admins see the text.
func (c *call) wrapped(class string, cause *apiError) *apiError {
	e := c.internal(0, "%s: %s", class, cause.text)
	e.csZero = true
	return e
}

func listSSLCerts(c *call) (any, error) {
	var certs []*sslCert
	of := func(owner *account) {
		for _, cert := range c.st.certs.rows {
			if cert.owner == owner {
				certs = append(certs, cert)
			}
		}
	}
	switch {
	case c.given("certid"):
		cert := arg[*sslCert](c, "certid")
		if cert == nil {
			return nil, c.wrapped(javaInvalid, invalid("Invalid certificate id: %d", c.refs["certid"].id))
		}
		certs = append(certs, cert)
	case c.given("lbruleid"):
		r := arg[*lbRule](c, "lbruleid")
		if r == nil {
			return nil, c.wrapped(javaInvalid, invalid("Found no loadbalancer with id: %d", c.refs["lbruleid"].id))
		}
		if !c.access(r.owner()) {
			return nil, c.wrapped(javaDenied, denied())
		}
		if r.cert != nil {
			certs = append(certs, r.cert)
		}
	case c.given("projectid"):
		p := arg[*project](c, "projectid")
		if p == nil || p.removed {
			return nil, c.wrapped(javaInvalid, invalid("Found no project with id: %s", c.projectRef()))
		}
		of(p.account)
	case c.given("accountid"):
		of(arg[*account](c, "accountid"))
	default:
		return nil, c.wrapped(javaInvalid, invalid("Invalid parameters either certificate ID or Account ID or Loadbalancer ID or Project ID required"))
	}
	if len(certs) > 0 && !c.access(certs[0].owner) { // without certificates, CloudStack does not check access
		return nil, c.wrapped(javaDenied, denied())
	}
	return whole("sslcert", certs, c.viewCert), nil
}

func deleteSSLCert(c *call) (any, error) {
	cert := arg[*sslCert](c, "id")
	if cert == nil {
		return nil, c.wrapped(javaInvalid, invalid("Invalid certificate id: %d", c.refs["id"].id))
	}
	if !c.access(cert.owner) {
		return nil, c.wrapped(javaDenied, denied())
	}
	if used := c.st.rulesWith(cert); len(used) > 0 {
		var names strings.Builder
		for _, r := range used {
			names.WriteString(r.name + " ")
		}
		return nil, c.wrapped(javaRuntime, errf(codeInternal, csRuntime, "Certificate in use by a loadbalancer(s) %s", names.String()))
	}
	c.st.certs.drop(cert)
	return success{true}, nil
}

func assignCertToLoadBalancer(c *call) (*jobSpec, error) {
	cert := arg[*sslCert](c, "certid")
	refused := func(*lbRule) string { return "Failed to assign certificate to load balancer" }
	return c.lbJob("lbruleid", refused, func(r *lbRule, _ time.Time) (any, error) {
		switch {
		case r.removed:
			return nil, invalid("Invalid load balancer id: %d", r.id)
		case cert == nil || cert.removed:
			return nil, invalid("Invalid certificate id: %d", c.refs["certid"].id)
		case !c.access(r.owner()):
			return nil, denied()
		case cert.owner != r.owner():
			return nil, invalid("Access denied for account %d", cert.owner.id)
		}
		if _, ok := r.network.lbCapability(tlsCapability); !ok || !c.server.cat.routerTLS {
			return nil, invalid("Ssl termination not supported by the loadbalancer")
		}
		if r.protocol != "ssl" {
			got := r.protocol
			if !r.hasProtocol {
				got = "null"
			}
			return nil, invalid("Bad LB protocol: Expected ssl got %s", got)
		}
		if r.cert != nil && !c.boolean("forced") {
			return nil, invalid("Another certificate is already bound to the LB")
		}
		r.cert = cert
		r.settle()
		return success{true}, nil
	})
}

func removeCertFromLoadBalancer(c *call) (*jobSpec, error) {
	refused := func(r *lbRule) string { return "Failed to remove certificate from load balancer rule " + r.text() }
	return c.lbJob("lbruleid", refused, func(r *lbRule, _ time.Time) (any, error) {
		switch {
		case r.removed:
			return nil, invalid("Invalid load balancer value: %d", r.id)
		case r.cert == nil:
			return nil, invalid("No certificate is bound to lb with id: %d", r.id)
		case !c.access(r.owner()):
			return nil, denied()
		}
		r.cert = nil
		r.settle()
		return success{true}, nil
	})
}
