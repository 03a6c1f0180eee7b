// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
)

// oneNetwork begins a world with the network net.
const oneNetwork = `
version: 4.22.0.0
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.99], hosts: [h1]}]
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password}]}
  - {name: k8s, role: User, users: [{name: ccm, password: password, apiKey: key, secretKey: secret}]}
networks:
  - {name: net, account: k8s, cidr: 10.1.0.0/16, sourceNAT: 203.0.113.10}
`

// clientBuilder gives a provider its client of the API server.
type clientBuilder struct{ kube kubernetes.Interface }

var _ cloudprovider.ControllerClientBuilder = clientBuilder{}

// Client returns the client for any name.
func (b clientBuilder) Client(string) (kubernetes.Interface, error) { return b.kube, nil }

// ClientOrDie returns the client for any name.
func (b clientBuilder) ClientOrDie(string) kubernetes.Interface { return b.kube }

// Config returns a configuration that leads nowhere.
func (clientBuilder) Config(string) (*rest.Config, error) { return &rest.Config{}, nil }

// ConfigOrDie returns a configuration that leads nowhere.
func (clientBuilder) ConfigOrDie(string) *rest.Config { return &rest.Config{} }

// eventsOn writes down "reason object" of each Event but those of a component. The returned function returns them,
// sorted. They do not come from the API server: two Events on
// one object have the same name while time stands still.
func eventsOn(kube *fake.Clientset, without string) func() []string {
	var mu sync.Mutex
	var written []string
	kube.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := a.(clienttesting.CreateAction); ok {
			if e, ok := create.GetObject().(*corev1.Event); ok && e.Source.Component != without {
				mu.Lock()
				written = append(written, e.Reason+" "+e.InvolvedObject.Name)
				mu.Unlock()
			}
		}
		return false, nil, nil
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(written))
	}
}
