// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testPlan runs csccm plan beside the controller, with the credentials of its Secret and the flags of its Deployment.
func testPlan(t *testing.T, env *clusterEnv) {
	out, code := env.csccm(t, "", "plan")
	if code != 0 || !strings.Contains(out, "1 Service: 1 as asked for.") {
		t.Errorf("exit code %d: %s", code, out)
	}
	// A Service that the controller refuses stays as it is: UDP behind a virtual router.
	services := env.Client.CoreV1().Services(metav1.NamespaceDefault)
	udp := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "udp"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}},
	}}
	if _, err := services.Create(t.Context(), udp, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, code = env.csccm(t, "", "plan", "default/udp")
	if code != 2 || !strings.Contains(out, "refused: UnsupportedProtocol") || !strings.Contains(out, "fix: ") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if err := services.Delete(t.Context(), "udp", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
