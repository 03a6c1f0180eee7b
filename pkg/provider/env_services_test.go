// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/internal/testenv"
)

// apiServer has the Services of a test. The key of a Service is namespace/name, or its name in namespace default.
type apiServer struct {
	t       *testing.T
	kube    *fake.Clientset
	created int // Services so far
}

// react makes the API server answer matching requests with a function, even while controllers use it: the fake's own
// method takes no lock.
func (a *apiServer) react(verb, resource string, by clienttesting.ReactionFunc) {
	a.kube.Lock()
	defer a.kube.Unlock()
	a.kube.PrependReactor(verb, resource, by)
}

func (a *apiServer) split(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return metav1.NamespaceDefault, key
}

// create creates a Service of type LoadBalancer.
func (a *apiServer) create(key string, ports []int, change ...func(*corev1.Service)) {
	a.t.Helper()
	svc := &corev1.Service{
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts(ports...)},
	}
	svc.Namespace, svc.Name = a.split(key)
	a.created++
	uid := map[string]types.UID{"web": webUID, "mail": mailUID}[key]
	svc.UID = cmp.Or(uid, types.UID(fmt.Sprintf("5e%06x-0000-4000-8000-0000000000aa", a.created)))
	for _, c := range change {
		c(svc)
	}
	_, err := a.kube.CoreV1().Services(svc.Namespace).Create(a.t.Context(), svc, metav1.CreateOptions{})
	require.NoError(a.t, err)
}

func (a *apiServer) get(key string) *corev1.Service {
	a.t.Helper()
	namespace, name := a.split(key)
	svc, err := a.kube.CoreV1().Services(namespace).Get(a.t.Context(), name, metav1.GetOptions{})
	require.NoError(a.t, err)
	return svc
}

// find returns a copy of a Service, or nil.
func (a *apiServer) find(key string) *corev1.Service {
	namespace, name := a.split(key)
	svc, err := a.kube.CoreV1().Services(namespace).Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return svc.DeepCopy()
}

// edit changes a Service as a user does.
func (a *apiServer) edit(key string, changes ...func(*corev1.Service)) {
	a.t.Helper()
	svc := a.get(key)
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	for _, c := range changes {
		c(svc)
	}
	_, err := a.kube.CoreV1().Services(svc.Namespace).Update(a.t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(a.t, err)
}

// forget deletes a Service without finalizers.
func (a *apiServer) forget(key string) {
	a.t.Helper()
	namespace, name := a.split(key)
	require.NoError(a.t, a.kube.CoreV1().Services(namespace).Delete(a.t.Context(), name, metav1.DeleteOptions{}))
}

// ip returns the address that a Service shows.
func (a *apiServer) ip(key string) string {
	a.t.Helper()
	ingress := a.get(key).Status.LoadBalancer.Ingress
	require.Len(a.t, ingress, 1, key)
	return ingress[0].IP
}

// parallel runs a subtest in parallel with others.
func parallel(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

func servicePorts(ports ...int) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, p := range ports {
		out = append(out,
			corev1.ServicePort{
				Name:     fmt.Sprintf("p%d", p),
				Protocol: corev1.ProtocolTCP,
				Port:     int32(p),
				NodePort: int32(30000 + p%2000),
			})
	}
	return out
}

func nodesNamed(names ...string) []*corev1.Node {
	var out []*corev1.Node
	for _, n := range names {
		node := testenv.Node(n, "")
		node.Status.Conditions[0].Status = corev1.ConditionTrue
		out = append(out, node)
	}
	return out
}

func annotate(pairs ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func at(ip string) func(*corev1.Service) { return annotate(annotation.Address, ip) }

func ranges(r ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = r }
}

func ofType(t corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = t }
}

func unset(names ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, n := range names {
			delete(s.Annotations, n)
		}
	}
}

// jsonText returns a record as the controller would write it.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and booleans can always be encoded
	}
	return string(text)
}

const ownReason = `"Service default/web (csccm test ` + webUID + `)"`

func grep(lines []string, part string) []string {
	var out []string
	for _, l := range lines {
		if strings.Contains(l, part) {
			out = append(out, l)
		}
	}
	return out
}

// changes returns the lines that only one of two dumps has.
func changes(before, after []string) []string {
	var out []string
	for _, line := range before {
		if !slices.Contains(after, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			out = append(out, "+ "+line)
		}
	}
	return out
}

// ipOf returns the address in a line of a dump, or "".
func ipOf(line string) string {
	for _, field := range strings.Fields(line) {
		if strings.Count(field, ".") == 3 && !strings.Contains(field, "/") {
			return field
		}
	}
	return ""
}

// endpoints sets the nodes of a Service's endpoints. An endpoint is ready, or terminating if its node is given as
// NODE:ending.
func (a *apiServer) endpoints(key string, nodes []string) {
	a.t.Helper()
	namespace, name := a.split(key)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      name + "-1",
			Labels:    map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}

	for _, node := range nodes {
		node, ending := strings.CutSuffix(node, ":ending")
		s.Endpoints = append(s.Endpoints,
			discoveryv1.Endpoint{NodeName: &node, Conditions: discoveryv1.EndpointConditions{
				Ready: ptr.To(!ending), Serving: ptr.To(true), Terminating: &ending,
			}})
	}

	slices := a.kube.DiscoveryV1().EndpointSlices(namespace)
	_, err := slices.Create(a.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = slices.Update(a.t.Context(), s, metav1.UpdateOptions{})
	}

	require.NoError(a.t, err)
}

// withUDP gives a Service additional UDP ports, with node ports of their own.
func withUDP(ports ...int) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, p := range ports {
			s.Spec.Ports = append(s.Spec.Ports,
				corev1.ServicePort{
					Name:     fmt.Sprintf("u%d", p),
					Protocol: corev1.ProtocolUDP,
					Port:     int32(p),
					NodePort: int32(32000 + p%700),
				})
		}
	}
}

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
