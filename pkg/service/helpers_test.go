// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
)

var testTime = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// newVersion returns a version of a Service, for a controller without a class.
func newVersion(svc *corev1.Service) *version { return new(Deps).version(svc) }

// aService returns a Service of type LoadBalancer whose UID is its name.
func aService(namespace, name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              name,
			UID:               types.UID(name),
			ResourceVersion:   "1",
			Annotations:       map[string]string{},
			CreationTimestamp: metav1.NewTime(testTime),
		},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, NodePort: 30080}},
		},
	}

	for _, c := range change {
		c(svc)
	}

	return svc
}

func annotated(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[name] = value }
}

// versioned sets the resourceVersion of a Service.
func versioned(v string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.ResourceVersion = v }
}

// showing adds addresses to the status of a Service, with a record of each.
func showing(allocated bool, ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		recording(allocated, ips...)(s)
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

// recording adds records of addresses to a Service.
func recording(allocated bool, ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		var records []annotation.AddressRecord
		for _, ip := range ips {
			records = append(records,
				annotation.AddressRecord{
					ID:        "id-" + ip,
					IP:        ip,
					Allocated: allocated,
					Acquired:  testTime.Format(time.RFC3339),
				})
		}
		setRecords(s, records...)
	}
}

func setRecords(s *corev1.Service, records ...annotation.AddressRecord) {
	text, err := json.Marshal(records)
	if err != nil {
		panic(err)
	}
	s.Annotations[annotation.Addresses] = string(text)
}

func created(after time.Duration) func(*corev1.Service) {
	return func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(testTime.Add(after)) }
}

type silent struct{}

func (silent) Event(runtime.Object, string, string, string) {}

// idleController returns a controller that makes no calls.
func idleController(t testing.TB) (*Controller, *clocktesting.FakeClock) {
	t.Helper()
	clk := clocktesting.NewFakeClock(testTime)
	client, err := cloudstack.NewClient(&cloudstack.Config{
		APIURL:    "http://127.0.0.1:1/client/api",
		APIKey:    "key",
		SecretKey: "secret",
	})
	require.NoError(t, err)
	c := New(Deps{
		Options: loadbalancer.Options{API: apply.API{Reader: client, Client: client}}, Clock: clk, Recorder: silent{},
		Services: func() ([]*corev1.Service, error) { return nil, nil },
		Nodes:    func() ([]*corev1.Node, error) { return nil, nil },
	})
	t.Cleanup(c.Stop)
	return c, clk
}
