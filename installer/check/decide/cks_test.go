// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// ready is a Node with its condition Ready.
func ready(name string, status corev1.ConditionStatus) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	return n
}

func TestCKSCluster(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	made := func(change func(f *ckscheck.Facts)) func(*Facts) {
		f := &ckscheck.Facts{Now: now, Unread: map[ckscheck.Subject]string{}, Cluster: &cloudapi.KubernetesCluster{
			Name: "c1", Type: cloudapi.CloudManaged, State: "Running", OfferingID: "o", ControlNodes: 1, IPAddressID: "ip", IPAddress: "203.0.113.1",
			Nodes: []cloudapi.ClusterVM{{ID: "vm0", Name: "c1-control-1", State: "Running"}},
		}, Nodes: []corev1.Node{ready("c1-control-1", corev1.ConditionTrue)}, Firewall: []cloudstack.FirewallRule{{PublicIPID: "ip", Protocol: "tcp", StartPort: 2222, EndPort: 2222}}}
		change(f)
		return func(to *Facts) { to.CKS = f }
	}
	same := func(*ckscheck.Facts) {}
	none := func(f *Facts) { f.NotCKS = "not made by CKS" }
	for _, code := range []string{"CKS-002", "CKS-003", "CKS-004", "CKS-005"} {
		expect{Skipped, "not made by CKS", nil}.of(t, code, none)
	}
	expect{OK, "all VMs of the cluster run", nil}.of(t, "CKS-002", made(same))
	expect{Warning, "1 problem of cluster c1", []string{"KubernetesCluster c1: cluster c1: it is Alert"}}.of(t, "CKS-002", made(func(f *ckscheck.Facts) { f.Cluster.State = "Alert" }))
	expect{"", "1 problem of cluster c1", []string{"KubernetesCluster c1: Node c1-control-1: it is not Ready"}}.of(t, "CKS-002", made(func(f *ckscheck.Facts) { f.Nodes[0] = ready("c1-control-1", corev1.ConditionFalse) }))
	expect{"", "1 problem", []string{"KubernetesCluster c1: VM c1-control-1: it is Stopped"}}.of(t, "CKS-002", made(func(f *ckscheck.Facts) { f.Cluster.Nodes[0].State = "Stopped" }))

	certificate := func(days int) func(*Facts) {
		return made(func(f *ckscheck.Facts) {
			f.Certificate = &ckscheck.Certificate{NotAfter: now.AddDate(0, 0, days)}
		})
	}
	expect{OK, "valid for more than 30 days", nil}.of(t, "CKS-003", certificate(31))
	expect{Warning, "1 problem", []string{"KubernetesCluster c1: the certificate of the API server: it expires on 2026-12-03"}}.of(t, "CKS-003", certificate(10))
	expect{"", "1 problem", []string{"KubernetesCluster c1: the certificate of the API server: it expired on 2026-11-22"}}.of(t, "CKS-003", certificate(-1))
	expect{Skipped, "not checked: the certificate of the API server: no answer", nil}.of(t, "CKS-003", made(func(f *ckscheck.Facts) {
		f.Unread[ckscheck.SubjectCertificate] = "no answer"
	}))

	expect{OK, "nothing known is in the way", nil}.of(t, "CKS-004", made(same))
	expect{"", "1 problem", []string{"KubernetesCluster c1: cluster c1: it was created without an offering"}}.of(t, "CKS-004", made(func(f *ckscheck.Facts) {
		f.Cluster.OfferingID, f.Cluster.WorkerOfferingID = "", "o"
		f.Unread[ckscheck.SubjectFirewall] = "the role of the keys does not allow it"
	}))
	expect{Warning, "1 problem", []string{"KubernetesCluster c1: address 203.0.113.1: CloudStack's own firewall rule"}}.of(t, "CKS-004", made(func(f *ckscheck.Facts) { f.Firewall = nil }))
	expect{OK, "would leave nothing behind", nil}.of(t, "CKS-005", made(same))
}
