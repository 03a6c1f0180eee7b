// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/testenv"
)

// withoutTags gives the account of a world a role that may not tag, such as CloudStack Kubernetes Service gives its clusters.
func withoutTags(world string) string {
	return strings.Replace(world, "accounts: [{name: k8s, role: User,", `roles:
  - name: restricted
    type: User
    rules: [{deny: createTags}, {deny: deleteTags}, {deny: listTags}, {deny: listZones}, {allow: "*"}]
accounts: [{name: k8s, role: restricted,`, 1)
}

// held are the public addresses and the internal load balancers of the account.
func (e *directEnv) held(t *testing.T) (out []string) {
	t.Helper()
	client := e.api(t, "inspector")
	addresses, err := client.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
	require.NoError(t, err)
	for i := range addresses {
		out = append(out, "address "+addresses[i].Address)
	}
	balancers, err := client.ListInternalLoadBalancers(t.Context(), cloudstack.InternalLoadBalancerQuery{})
	require.NoError(t, err)
	for i := range balancers {
		out = append(out, fmt.Sprintf("internal %s:%d", balancers[i].Address, balancers[i].Port))
	}
	slices.Sort(out)
	return out
}

// TestRestartedControllerReleases deletes Services of a role that may not tag after, or during, a restart of the controller:
// the record on the Service is then the only proof of what was acquired for it. From Kubernetes 1.34 on every start lost the
// records, because the informer of a real API server runs its transform twice for the first list.
func TestRestartedControllerReleases(t *testing.T) {
	t.Parallel()
	internal := map[string]string{annotations + "internal": "true"}
	for _, c := range []struct {
		name     string
		world    string
		has      map[string]string
		halfDone bool // nobody learns what became of associateIpAddress
		running  bool // the Service is deleted after the start, and not while no controller runs
	}{
		{name: "deleted while stopped", world: isolatedWorld},
		{name: "deleted after the start", world: isolatedWorld, running: true},
		{name: "internal, deleted while stopped", world: vpcWorld, has: internal},
		{name: "internal, deleted after the start", world: vpcWorld, has: internal, running: true},
		{name: "half done, deleted while stopped", world: isolatedWorld, halfDone: true},
		{name: "half done, deleted after the start", world: isolatedWorld, halfDone: true, running: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := directEnvOf(t, testenv.Options{World: withoutTags(c.world), Nodes: 2})
			before := e.held(t)
			first := e.controller(t, testenv.User, "--leader-elect=false")
			var restore []func()
			if c.halfDone {
				restore = append(restore,
					e.cloud.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultLostAnswer}),
					e.cloud.Inject(simulator.Fault{Command: "queryAsyncJobResult", Caller: testenv.User, Kind: simulator.FaultErrorBefore}),
				)
			}
			e.annotated(t, "web", c.has, 80, 443)
			if c.halfDone {
				e.eventually(t, "an address to be acquired", func(context.Context) error {
					if len(e.held(t)) == len(before) {
						return errors.New("not yet")
					}
					return nil
				})
			} else {
				e.address(t, "web")
			}
			first.Stop(10 * time.Second)
			if slices.Equal(before, e.held(t)) {
				t.Fatal("nothing is there for the Service")
			}
			for _, r := range restore {
				r()
			}

			if !c.running {
				require.NoError(t, e.Client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "web", metav1.DeleteOptions{}))
			}
			e.cloud.Ledger().Reset()
			e.controller(t, testenv.User, "--leader-elect=false")
			if c.running {
				e.eventually(t, "the controller to read the rules", func(context.Context) error {
					if len(e.cloud.Ledger().Find("list*LoadBalancer*", testenv.User)) == 0 {
						return errors.New("not yet")
					}
					return nil
				})
				e.address(t, "web")
				require.NoError(t, e.vms.Idle(t.Context()))
				e.remove(t, "web")
			} else {
				e.eventually(t, "Service web to go", func(ctx context.Context) error {
					_, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "web", metav1.GetOptions{})
					return gone(err)
				})
			}
			if after := e.held(t); !slices.Equal(before, after) {
				t.Errorf("the account has %v after the deletion, and had %v before", after, before)
			}
		})
	}
}
