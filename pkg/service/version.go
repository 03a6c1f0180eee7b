// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// version is one version of a Service with what follows from it alone. It is read once and never changed.
type version struct {
	svc *corev1.Service
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

// newVersion returns a version without its content.
func newVersion(svc *corev1.Service) *version {
	records, err := annotation.ParseRecords(svc.Annotations)
	v := &version{
		svc: svc, records: records.Trusted(), unreadable: err != nil,
		shareWith: annotation.Sharing(svc), statusIPs: loadbalancer.StatusIPs(svc),
	}
	for i := range svc.Status.LoadBalancer.Ingress {
		v.statusPorts += len(svc.Status.LoadBalancer.Ingress[i].Ports)
	}
	if svc.Spec.LoadBalancerClass != nil {
		// Another controller may write the status by now: ours is what our records name.
		v.statusIPs = slices.DeleteFunc(v.statusIPs, func(ip string) bool { return !v.names(ip) })
	}
	return v
}

// read returns a version with its content. mode is that of Services which choose none.
func read(svc *corev1.Service, mode string) *version {
	v := newVersion(svc)
	v.content = v.read(mode)
	return v
}

// read reads the content.
func (v *version) read(mode string) *content {
	c := &content{id: loadbalancer.ServiceOf(v.svc), asked: annotation.Fingerprint(v.svc)}
	c.spec, c.invalid = annotation.Parse(v.svc)
	c.spec.Mode = cmp.Or(c.spec.Mode, mode)
	c.forwards = wants(v.svc) && plan.Facts{Service: c.id, Spec: c.spec}.Forwards()
	v.complete(c)
	return c
}

// complete adds to the content what changes while the owner asks for the same.
func (v *version) complete(c *content) {
	c.spec.Records, c.id.StatusIPs = v.records, v.statusIPs
	c.id.Seen = apimeta.FindStatusCondition(v.svc.Status.Conditions, ConditionReady) != nil
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

// servedByOthers reports whether the status shows an address that another controller has given to the Service, which has a class.
func (v *version) servedByOthers() bool {
	return v.svc.Spec.LoadBalancerClass != nil && slices.ContainsFunc(v.svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool {
		ours := in.IP != "" && v.names(in.IP) || in.IP == "" && in.Hostname == v.spec.Hostname
		return !ours
	})
}

// older reports whether a version of a Service is older than another one. Versions that cannot be compared are not.
func older(svc, than *corev1.Service) bool {
	order, err := resourceversion.CompareResourceVersion(svc.ResourceVersion, than.ResourceVersion)
	return err == nil && order < 0
}

// Handles reports whether the controller works on a Service: one that wants a load balancer of no other class, or one that
// still has what this controller gave to it.
func Handles(svc *corev1.Service) bool { return wants(svc) || leaves(svc) }

// wants reports whether a Service wants a load balancer of this controller.
func wants(svc *corev1.Service) bool {
	return svc.DeletionTimestamp == nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

// leaves reports whether a Service no longer wants the load balancer that it has. The finalizer alone does not prove that for
// one of another class: other controllers use the same.
func leaves(svc *corev1.Service) bool {
	finalizer := servicehelpers.HasLBFinalizer(svc) && svc.Spec.LoadBalancerClass == nil
	return !wants(svc) && (finalizer || hasRecords(svc))
}

// hasRecords reports whether a Service carries what only this controller writes: records of addresses or its condition.
func hasRecords(svc *corev1.Service) bool {
	return svc.Annotations[annotation.Addresses] != "" || svc.Annotations[annotation.Allocation] != "" ||
		apimeta.FindStatusCondition(svc.Status.Conditions, ConditionReady) != nil
}
