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
	id                      plan.Service
	// spec is what the Service requests. Its records are those that only the controller can have written.
	spec    annotation.Spec
	invalid error  // why annotations could not be parsed
	asked   string // identifies what the owner asks for, see annotation.Fingerprint
	// forwards means that the Service may have port forwardings. Whether it does depends on the network, too.
	forwards    bool
	statusPorts int // number of ports in the status
}

// version returns a version of a Service.
func (d *Deps) version(svc *corev1.Service) *version {
	v := &version{
		svc:     svc,
		wants:   d.Classes.Wants(svc),
		handled: d.Classes.Handles(svc),
		foreign: svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !d.Classes.Serves(ClassOf(svc)),
		id:      loadbalancer.ServiceOf(svc),
		asked:   annotation.Fingerprint(svc),
	}

	v.spec, v.invalid = annotation.Parse(svc)
	v.spec.Mode = cmp.Or(v.spec.Mode, d.Mode)
	v.spec.Records = v.spec.Records.Trusted()
	v.id.Seen = Ready(svc).Type != ""
	v.forwards = v.wants && plan.Facts{Service: v.id, Spec: v.spec}.Forwards()
	for _, in := range svc.Status.LoadBalancer.Ingress {
		v.statusPorts += len(in.Ports)
	}

	if v.foreign {
		// Another controller may write the status by now, so only addresses that our records name are ours.
		v.id.StatusIPs = slices.DeleteFunc(v.id.StatusIPs, func(ip string) bool { return !v.names(ip) })
	}
	return v
}

// names reports whether a record of the Service has an address.
func (v *version) names(ip string) bool {
	return slices.ContainsFunc(v.spec.Records.Addresses, func(r annotation.AddressRecord) bool { return r.IP == ip })
}

// served reports whether the Service has an address according to its records or its status.
func (v *version) served() bool { return !v.spec.Records.Empty() || len(v.id.StatusIPs) > 0 }

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
