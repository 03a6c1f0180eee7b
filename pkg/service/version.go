// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// version is one version of a Service, with everything that is derived from it alone. It is parsed once and never
// changed.
type version struct {
	svc *corev1.Service
	// wants and handled are the results of Classes.Wants and Classes.Handles. foreign means that the Service has a
	// class that only other controllers serve.
	wants, handled, foreign bool
	// records are the controller's records. unreadable means that somebody else has written invalid ones.
	records    annotation.Records
	unreadable bool
	shareWith  []string
	statusIPs  []string
	// statusPorts is the number of ports in the status.
	statusPorts int
	// content is nil until a worker has parsed the Service, because a tenant can make parsing slow. It is set under the
	// controller's lock.
	*content
}

// content is what a worker parses from a version.
type content struct {
	id      plan.Service
	spec    annotation.Spec
	invalid error  // why annotations could not be parsed
	asked   string // identifies what the owner asks for, see annotation.Fingerprint
	// forwards means that the Service may have port forwardings. Whether it does depends on the network, too.
	forwards bool
}

// version returns a version of a Service, without its content.
func (c Classes) version(svc *corev1.Service) *version {
	records, err := annotation.ParseRecords(svc.Annotations)
	v := &version{
		svc:        svc,
		wants:      c.Wants(svc),
		handled:    c.Handles(svc),
		foreign:    svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !c.Serves(ClassOf(svc)),
		records:    records.Trusted(),
		unreadable: err != nil,
		shareWith:  annotation.Sharing(svc),
		statusIPs:  loadbalancer.StatusIPs(svc),
	}

	for _, in := range svc.Status.LoadBalancer.Ingress {
		v.statusPorts += len(in.Ports)
	}

	if v.foreign {
		// Another controller may write the status by now, so only addresses that our records name are ours.
		v.statusIPs = slices.DeleteFunc(v.statusIPs, func(ip string) bool { return !v.names(ip) })
	}

	return v
}

// read returns the content of the version.
func (v *version) read(mode string) *content {
	c := &content{id: loadbalancer.ServiceOf(v.svc), asked: annotation.Fingerprint(v.svc)}
	c.spec, c.invalid = annotation.Parse(v.svc)
	c.spec.Mode = cmp.Or(c.spec.Mode, mode)
	c.forwards = v.wants && plan.Facts{Service: c.id, Spec: c.spec}.Forwards()
	v.complete(c)
	return c
}

// complete sets the parts of the content that may change while the owner's request stays the same.
func (v *version) complete(c *content) {
	c.spec.Records, c.id.StatusIPs = v.records, v.statusIPs
	c.id.Seen = Ready(v.svc).Type != ""
}

// inherit takes over the content of the version before, if the owner's request is the same.
func (v *version) inherit(was *version) {
	if was != nil && was.content != nil && !differ(was, v) {
		c := *was.content
		v.complete(&c)
		v.content = &c
	}
}

// names reports whether a record of the Service has an address.
func (v *version) names(ip string) bool {
	return slices.ContainsFunc(v.records.Addresses, func(r annotation.AddressRecord) bool { return r.IP == ip })
}

// served reports whether the Service has an address according to its records or its status.
func (v *version) served() bool { return !v.records.Empty() || len(v.statusIPs) > 0 }

// servedByOthers reports whether the Service now has a class of another controller, and its status shows an address
// that this other controller has set.
func (v *version) servedByOthers() bool {
	return v.foreign && !servedBefore(v.svc) &&
		slices.ContainsFunc(v.svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool {
			if in.IP != "" {
				return !v.names(in.IP)
			}
			return in.Hostname != v.spec.Hostname
		})
}

// older reports whether a version of a Service is older than another one; false if they cannot be compared.
func older(svc, than *corev1.Service) bool {
	order, err := resourceversion.CompareResourceVersion(svc.ResourceVersion, than.ResourceVersion)
	return err == nil && order < 0
}
