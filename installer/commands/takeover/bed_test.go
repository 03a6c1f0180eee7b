// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/stepclock"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
)

// bed is a recorded state, in the simulator and in a fake API server.
type bed struct {
	kube   *fake.Clientset
	client *cloudstack.Client
	config *cloudstack.Config
	sim    *simulator.Simulator
	clock  *stepclock.Clock

	mu  sync.Mutex
	log []string // writes to workloads, leases and rules, in order
}

func newBed(t *testing.T, state string, old ...runtime.Object) *bed {
	t.Helper()
	s, err := leftby.Load(state)
	require.NoError(t, err)
	world, err := s.World()
	require.NoError(t, err)
	b := &bed{clock: stepclock.New(nil)}
	b.sim, err = simulator.New(simulator.Options{World: world})
	require.NoError(t, err)
	t.Cleanup(b.sim.Close)
	server := httptest.NewServer(b.sim.Handler())
	t.Cleanup(server.Close)
	config := cloudconfig.Default()
	config.APIURL = server.URL + "/client/api"
	var found bool
	config.APIKey, config.SecretKey, found = b.sim.Keys(leftby.Account)
	require.True(t, found)
	b.config = &config
	b.client, err = cloudstack.NewClient(&config)
	require.NoError(t, err)
	t.Cleanup(b.client.CloseIdleConnections)

	objects := old
	for i := range s.Kubernetes.Services {
		objects = append(objects, &s.Kubernetes.Services[i])
	}
	for i := range s.Kubernetes.Nodes {
		objects = append(objects, &s.Kubernetes.Nodes[i])
	}
	for i := range s.Kubernetes.Leases {
		objects = append(objects, &s.Kubernetes.Leases[i])
	}
	b.kube = fake.NewClientset(objects...)
	leftby.Play(b.kube, b.note)
	return b
}

func (b *bed) note(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, s)
}

func (b *bed) notes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.log...)
}

func (b *bed) facts(t *testing.T) *Facts {
	t.Helper()
	f, err := Detect(t.Context(), b.source())
	require.NoError(t, err)
	return f
}

func (b *bed) taker(t *testing.T, p *Plan) *Taker {
	t.Helper()
	taker, err := NewTaker(t.Context(), b.source(), p, b.options(t))
	require.NoError(t, err)
	return taker
}

// options are those of a run that begins later than the one before: records are named by their time.
func (b *bed) options(t *testing.T) Options {
	t.Helper()
	b.clock.Step(time.Second)
	return Options{Clock: b.clock, Progress: report.Quiet(), Dir: t.TempDir()}
}

func (b *bed) source() Source {
	return Source{Kube: b.kube, API: b.client, Config: b.config, Release: "cloudstack-ccm", Namespace: "kube-system"}
}

func run(ctx context.Context, steps []engine.Step) error {
	for _, s := range steps {
		if err := s.Do(ctx, func(string, ...any) {}); err != nil {
			return err
		}
	}
	return nil
}

// rules are the ids of the rules by address and port.
func (b *bed) rules(t *testing.T) map[string]cloudstack.LoadBalancerRule {
	t.Helper()
	list, err := b.client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	out := map[string]cloudstack.LoadBalancerRule{}
	for _, r := range list {
		out[r.ID] = r
	}
	return out
}

func ours() *appsv1.Deployment {
	return leftby.Controller("cloudstack-cloud-controller-manager", "x", map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "cloudstack-ccm"}, "--leader-elect=true")
}
