// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"slices"
	"strings"
)

// otherClouds are prefixes of annotations with which other controllers configure load balancers.
var otherClouds = strings.Fields(`
	load-balancer.hetzner.cloud/
	loadbalancer.openstack.org/
	service.beta.kubernetes.io/openstack-
	service.beta.kubernetes.io/aws-load-balancer-
	service.beta.kubernetes.io/azure-
	service.beta.kubernetes.io/do-loadbalancer-
	service.beta.kubernetes.io/linode-loadbalancer-
	service.beta.kubernetes.io/scw-loadbalancer-
	service.beta.kubernetes.io/vultr-loadbalancer-
	service.beta.kubernetes.io/oci-load-balancer-
	oci.oraclecloud.com/
	service.kubernetes.io/ibm-load-balancer-
	k8s.cloudscale.ch/
	cloud.google.com/
	networking.gke.io/
	metallb.io/
	metallb.universe.tf/
	kube-vip.io/
	lbipam.cilium.io/
	io.cilium/lb-ipam-
	purelb.io/
`)

// elsewhere warns about settings that have no effect: labels with the name of an annotation, and annotations of other
// clouds.
func (p *parser) elsewhere() {
	warn := func(names []string, format string) {
		if len(names) > 0 {
			p.warnings = append(p.warnings, fmt.Sprintf(format, names[0]+andMore(names)))
		}
	}

	warn(named(p.svc.Labels, family), "label %s has no effect: make it an annotation")
	warn(named(p.svc.Annotations, otherClouds...),
		"annotation %s is another controller's and has no effect; those of csccm begin with "+Prefix)
}

// named returns the names that have one of the prefixes, sorted.
func named(names map[string]string, prefixes ...string) (out []string) {
	for name := range names {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// andMore returns a text with the number of names after the first one.
func andMore(names []string) string {
	if len(names) < 2 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", len(names)-1)
}
