// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// withOtherProject adds a project beside what the cluster has.
func withOtherProject(b *bed, w *string) {
	withProject(b, w)
	b.project = ""
}

// What a Service names and CloudStack does not have, or cannot do, is refused with the annotation, its value and the
// remedy, and without CloudStack's own text.
func TestRefusalsNameTheAnnotation(t *testing.T) {
	t.Parallel()
	const unknown = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
	set := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			annotate(annotation.Prefix+strings.TrimPrefix(key, annotation.Prefix), value)(s)
		}
	}
	for _, c := range []struct {
		name   string
		living bool // the Service is served before
		change func(*corev1.Service)
		reason plan.Reason
		wants  []string
	}{
		{"unknown certificate", false, annotate(annotation.SSLCertificate, unknown), plan.ReasonNoSuchCertificate, []string{annotation.SSLCertificate, unknown, "upload"}},
		{"unknown project by name", false, set(annotation.Project, "nowhere"), plan.ReasonNoSuchProject, []string{annotation.Project, `"nowhere"`, "correct the annotation"}},
		{"unknown project by id", false, set(annotation.Project, unknown), plan.ReasonNoSuchProject, []string{annotation.Project, unknown, "correct the annotation"}},
		{"project without the nodes", false, set(annotation.Project, "dev"), plan.ReasonNoBackends, []string{annotation.Project, `"dev"`, "correct or remove the annotation"}},
		{"project changed", true, set(annotation.Project, "dev"), plan.ReasonProjectChanged, []string{annotation.Project, `"dev"`, "remove the annotation"}},
		{"project changed to an unknown one", true, set(annotation.Project, "nowhere"), plan.ReasonProjectChanged, []string{annotation.Project, `"nowhere"`, "remove the annotation"}},
		{"project changed to an unknown id", true, set(annotation.Project, unknown), plan.ReasonProjectChanged, []string{annotation.Project, unknown, "remove the annotation"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, withOtherProject)
			b.service([]int{443})
			if c.living {
				b.mustSync("w1", "w2")
			}
			b.change(c.change)
			b.events()
			require.Error(t, b.sync("w1", "w2"))
			event := b.event(c.reason)
			for _, want := range c.wants {
				assert.Contains(t, event, want)
			}
			for _, raw := range []string{"cloudstack ", "code 4", "code 5", "Unable to"} {
				assert.NotContains(t, event, raw)
			}
		})
	}
}

// A taken port names the Service that has it only within its namespace.
func TestPortTakenNamesTheNeighbour(t *testing.T) {
	t.Parallel()
	for namespace, named := range map[string]bool{"default": true, "elsewhere": false} {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.service([]int{80}, func(s *corev1.Service) {
				s.Namespace = namespace
				s.Annotations[annotation.ShareWith] = "default"
			}, uid(mailUID), func(s *corev1.Service) { s.Name = "mail" })
			ip := b.servedIn(namespace, "mail")
			b.service([]int{80}, annotate(annotation.Address, ip))
			b.events()
			require.Error(t, b.sync("w1", "w2"))
			event := b.event(plan.ReasonPortTaken)
			assert.Contains(t, event, "port 80 of address "+ip)
			assert.Equal(t, named, strings.Contains(event, "Service default/mail"), event)
			assert.NotContains(t, event, "elsewhere")
		})
	}
}

// servedIn syncs a Service of any namespace and returns its address.
func (b *bed) servedIn(namespace, name string) string {
	b.t.Helper()
	svc, err := b.kube.CoreV1().Services(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	require.NoError(b.t, err)
	status, err := b.lb.EnsureLoadBalancer(b.t.Context(), "kubernetes", svc, nodesNamed("w1", "w2"))
	require.NoError(b.t, err)
	svc, err = b.kube.CoreV1().Services(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	require.NoError(b.t, err)
	svc.Status.LoadBalancer = *status
	_, err = b.kube.CoreV1().Services(namespace).Update(b.t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(b.t, err)
	return status.Ingress[0].IP
}

// Where the nodes are in two tiers and the one that is taken cannot serve, the refusal names the annotation that chooses.
func TestRefusedTierNamesTheOther(t *testing.T) {
	t.Parallel()
	b := newBed(t, withVPC, withWorld(func(w string) string {
		return strings.Replace(w, "virtualMachines:\n", `virtualMachines:
  - {name: x1, account: k8s, nics: [{network: tier, ip: 10.2.1.31}, {network: inner, ip: 10.2.2.31}]}
  - {name: x2, account: k8s, nics: [{network: tier, ip: 10.2.1.32}, {network: inner, ip: 10.2.2.32}]}
`, 1)
	}))
	b.service([]int{80}, annotate(annotation.Internal, "true"))
	require.Error(t, b.sync("x1", "x2"))
	assert.Contains(t, b.event(plan.ReasonUnsupportedNetwork), "another network that all nodes have in "+annotation.Network+": inner")
	b.change(annotate(annotation.Network, "inner"))
	require.NoError(t, b.sync("x1", "x2"))
}
