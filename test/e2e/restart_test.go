// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// untaggedWorld has a tier with internal load balancing, and an account whose role may not tag, like the accounts that
// CloudStack Kubernetes Service creates for its clusters.
const untaggedWorld = `
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.199], hosts: [h1]}]
roles:
- {name: restricted, type: User, rules: [{deny: createTags}, {deny: deleteTags}, {deny: listTags}, {deny: listZones}, {allow: "*"}]}
accounts: [{name: k8s, role: restricted, users: [{name: ccm-a}, {name: inspector}]}]
vpcs:
- {name: vpc-1, cidr: 10.2.0.0/16, account: k8s, aclLists: [{name: acl-1, items: [{number: 10, protocol: all, action: Deny}]}]}
networks:
- name: inner
  vpc: vpc-1
  account: k8s
  cidr: 10.2.1.0/24
  acl: acl-1
  offering: DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB
- {name: k8s-tier, vpc: vpc-1, account: k8s, cidr: 10.2.2.0/24, acl: acl-1}
virtualMachines:
- {name: w1, account: k8s, nics: [{network: inner, ip: 10.2.1.21}, {network: k8s-tier, ip: 10.2.2.21}]}
- {name: w2, account: k8s, nics: [{network: inner, ip: 10.2.1.22}, {network: k8s-tier, ip: 10.2.2.22}]}
`

// held returns the public addresses and the internal load balancers of the account.
func (e *directEnv) held(ctx context.Context, client *cloudstack.Client) (out []string) {
	for _, a := range must.Get(client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{})) {
		out = append(out, "address "+a.Address)
	}
	for _, l := range must.Get(client.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{})) {
		out = append(out, fmt.Sprintf("internal %s:%d", l.Address, l.Port))
	}
	slices.Sort(out)
	return out
}

// TestRestartedControllerReleases deletes Services while the controller is stopped and after it has started again. Its
// role may not tag, so the record on the Service is the only proof of what was acquired for it, even if the result of
// the call is unknown. Since Kubernetes 1.34 each start lost these records, because the informer runs its transform
// twice for the first list of a real API server.
func TestRestartedControllerReleases(t *testing.T) {
	t.Parallel()
	e := directEnvOf(t, testenv.Options{World: untaggedWorld, Nodes: 2})
	client := e.api(t, "inspector")
	holds := func(n int) (all []string) {
		t.Helper()
		e.eventually(t, fmt.Sprintf("%d addresses and internal load balancers", n), func(ctx context.Context) {
			all = e.held(ctx, client)
			must.Be(n < 0 || len(all) == n, "they are %v", all)
		})
		return all
	}
	before := holds(-1)
	args := []string{"--leader-elect=false", `--tenancy={"annotations": {"network": {"allow": ["default"]}}}`}
	first := e.controller(t, testenv.User, args...)
	whens, tier := []string{"stopped", "running"}, map[string]string{annotations + "network": "k8s-tier"}
	for _, when := range whens {
		e.serviceIn(t, metav1.NamespaceDefault, "public-"+when, tier, 80, 443)
		e.serviceIn(t, metav1.NamespaceDefault, "internal-"+when, map[string]string{annotations + "internal": "true"},
			80)
		e.address(t, "public-"+when)
		e.address(t, "internal-"+when)
	}
	lost := e.cloud.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultLostAnswer})
	unknown := e.cloud.Inject(simulator.Fault{
		Command: "queryAsyncJobResult", Caller: testenv.User, Kind: simulator.FaultErrorBefore,
	})
	for _, when := range whens {
		e.serviceIn(t, metav1.NamespaceDefault, "half-"+when, tier, 80)
	}
	holds(len(before) + 6)
	first.Stop(10 * time.Second)
	lost()
	unknown()

	kinds := []string{"public-", "internal-", "half-"}
	for _, kind := range kinds {
		e.deleteService(t, kind+"stopped")
	}
	e.controller(t, testenv.User, args...)
	for _, kind := range kinds {
		e.gone(t, kind+"stopped")
		e.address(t, kind+"running")
	}
	require.NoError(t, e.vms.Idle(t.Context()))
	for _, kind := range kinds {
		e.deleteService(t, kind+"running")
		e.gone(t, kind+"running")
	}
	require.Equal(t, before, holds(len(before)))
}
