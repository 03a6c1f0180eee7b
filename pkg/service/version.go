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

// version is one version of a Service with what follows from it alone. It is read once and never changed.
type version struct {
	svc *corev1.Service
	// wants and handled are what Classes says of the Service; foreign means that it has a class that only others serve.
	wants, handled, foreign bool
	// records are what the controller wrote; unreadable means that somebody else did.
	records    annotation.Records
	unreadable bool
	shareWith  []string
	statusIPs  []string
	// statusPorts is how many ports the status shows.
	statusPorts int
	// *content is nil until a worker has read the Service: a tenant decides how long that takes. It is set under the
	// controller's lock.
	*content
}

// content is what a worker reads of a version.
type content struct {
	id      plan.Service
	spec    annotation.Spec
	invalid error  // why annotations could not be read
	asked   string // identifies what the owner asks for, see annotation.Fingerprint
	// forwards is set when ports may be port forwardings: whether they are depends on the network, too.
	forwards bool
}

// version returns a version of a Service without its content.
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
		// Another controller may write the status by now: ours is what our records name.
		v.statusIPs = slices.DeleteFunc(v.statusIPs, func(ip string) bool { return !v.names(ip) })
	}

	return v
}

// read reads the content.
func (v *version) read(mode string) *content {
	c := &content{id: loadbalancer.ServiceOf(v.svc), asked: annotation.Fingerprint(v.svc)}
	c.spec, c.invalid = annotation.Parse(v.svc)
	c.spec.Mode = cmp.Or(c.spec.Mode, mode)
	c.forwards = v.wants && plan.Facts{Service: c.id, Spec: c.spec}.Forwards()
	v.complete(c)
	return c
}

// complete adds to the content what changes while the owner asks for the same.
func (v *version) complete(c *content) {
	c.spec.Records, c.id.StatusIPs = v.records, v.statusIPs
	c.id.Seen = Ready(v.svc).Type != ""
}

// inherit takes over what a worker has read of the version before, whose owner asked for the same.
func (v *version) inherit(was *version) {
	if was != nil && was.content != nil && !differ(was, v) {
		c := *was.content
		v.complete(&c)
		v.content = &c
	}
}

// names reports whether a record of the Service names an address.
func (v *version) names(ip string) bool {
	return slices.ContainsFunc(v.records.Addresses, func(r annotation.AddressRecord) bool { return r.IP == ip })
}

// served reports whether the Service has an address by its records or its status.
func (v *version) served() bool { return !v.records.Empty() || len(v.statusIPs) > 0 }

// servedByOthers reports whether the status shows an address that another controller has given to the Service, which
// has got a class that is that one's.
func (v *version) servedByOthers() bool {
	other := func(in corev1.LoadBalancerIngress) bool {
		ours := in.IP != "" && v.names(in.IP) || in.IP == "" && in.Hostname == v.spec.Hostname
		return !ours
	}
	return v.foreign && !kept(v.svc) && slices.ContainsFunc(v.svc.Status.LoadBalancer.Ingress, other)
}

// older reports whether a version of a Service is older than another one. Versions that cannot be compared are not.
func older(svc, than *corev1.Service) bool {
	order, err := resourceversion.CompareResourceVersion(svc.ResourceVersion, than.ResourceVersion)
	return err == nil && order < 0
}
