// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ExpiryWarning is how long before a certificate's end a warning begins.
const ExpiryWarning = 30 * 24 * time.Hour

// Certificates returns findings about the ends of the certificates, and the names that the API server's is valid for.
func Certificates(f *Facts) []Finding {
	c := newCheck(f)
	c.certificates()
	return c.findings
}

func (c *check) certificates() {
	c.read("certificate-expired", SubjectCertificate, SubjectKubeconfig)
	for _, cert := range c.Certificates {
		object := string(cert.Of)
		end := cert.NotAfter.UTC().Format(time.DateOnly)
		switch {
		case cert.NotBefore.After(c.Now):
			c.fail("certificate-not-yet", object, "set the clocks of the nodes, or of CloudStack's server", "it is valid from %s; CloudStack's clock says %s",
				cert.NotBefore.UTC().Format(time.RFC3339), c.Now.UTC().Format(time.RFC3339))
		case c.Now.After(cert.NotAfter):
			c.fail("certificate-expired", object, c.renew(cert.Of), "it expired on %s", end)
		case !c.Now.Before(cert.NotAfter.Add(-ExpiryWarning)):
			c.warn("certificate-expires", object, c.renew(cert.Of), "it expires on %s, in %d days; CloudStack does not renew it", end, int(cert.NotAfter.Sub(c.Now)/(24*time.Hour)))
		}
		if cert.Host != "" && !slices.ContainsFunc(cert.Names, func(name string) bool { return sameHost(name, cert.Host) }) {
			c.warn("certificate-host", object, "on each control node: add "+cert.Host+" to apiServer.certSANs of a configuration for kubeadm, move /etc/kubernetes/pki/apiserver.crt and .key away, "+
				"run `sudo kubeadm init phase certs apiserver --config FILE` and restart the API server",
				"it is valid for %s, not for %s, which the cluster's kubeconfig names: kubectl refuses it", strings.Join(cert.Names, ", "), cert.Host)
		}
	}
}

// renew is how kubeadm's certificates are renewed. An upgrade does so too, but only while they are valid.
func (c *check) renew(of Subject) string {
	remedy := "on each control node run `sudo kubeadm certs renew all`, and restart the node or the Pods of the control plane"
	if c.Cluster != nil && c.Cluster.IPAddress != "" {
		remedy = fmt.Sprintf("on each control node (ssh -p 2222 cloud@%s reaches the first) run `sudo kubeadm certs renew all`, and restart the node or the Pods of the control plane", c.Cluster.IPAddress)
	}
	if of == SubjectKubeconfig {
		return remedy + "; then use /etc/kubernetes/admin.conf of a control node: CloudStack goes on handing out the old kubeconfig"
	}
	return remedy + "; while it is still valid, csccm cks upgrade renews it as well"
}

func sameHost(a, b string) bool {
	if x, err := netip.ParseAddr(a); err == nil {
		y, err := netip.ParseAddr(b)
		return err == nil && x.Unmap() == y.Unmap()
	}
	return strings.EqualFold(a, b)
}
