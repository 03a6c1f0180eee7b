// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// newCloud starts a simulated CloudStack, with a client of the user k8s-owner.
func newCloud(t *testing.T) (*testenv.Cloud, *cloudstack.Client) {
	t.Helper()
	cloud := testenv.New(t, string(simulator.ExampleYAML()), simulator.Options{})
	key, secret, ok := cloud.Keys("k8s-owner")
	require.True(t, ok)
	return cloud, cloud.Client(key, secret)
}

// done waits for the job of a write.
func done(t *testing.T, c *cloudstack.Client, command string) func(cloudstack.Submitted, error) string {
	t.Helper()
	return func(s cloudstack.Submitted, err error) string {
		t.Helper()
		require.NoError(t, err)
		_, err = c.Jobs().Wait(t.Context(), command, s.JobID)
		require.NoError(t, err)
		return s.ID
	}
}

// TestLifeOfALoadBalancer goes once through all calls that the controller makes.
func TestLifeOfALoadBalancer(t *testing.T) {
	t.Parallel()
	_, c := newCloud(t)
	ctx := t.Context()

	zones, err := c.ListZones(ctx)
	require.NoError(t, err)
	require.Len(t, zones, 1)
	nets, err := c.ListNetworks(ctx, cloudstack.NetworkQuery{ZoneID: zones[0].ID})
	require.NoError(t, err)
	require.Len(t, nets, 1)
	require.True(t, nets[0].HasService("Lb"))
	vms, err := c.ListVirtualMachines(ctx, cloudstack.VMQuery{WithOffering: true})
	require.NoError(t, err)
	require.Len(t, vms, 3)
	require.Equal(t, "Small Instance", vms[0].ServiceOfferingName)
	ids := []string{vms[1].ID, vms[2].ID}

	job := uuid.NewString()
	ip := done(t, c, "associateIpAddress")(c.AssociateIP(ctx, cloudstack.AssociateIPRequest{NetworkID: nets[0].ID, CustomJobID: job}))
	asked, err := c.Jobs().Wait(ctx, "associateIpAddress", job)
	require.NoError(t, err)
	require.Equal(t, ip, asked.InstanceID, "the address can be found by the job id that the caller chose")

	rule := done(t, c, "createLoadBalancerRule")(c.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
		Name: "a-tcp-80", Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: ip, PublicPort: 80, PrivatePort: 30080, CIDRs: []string{"10.0.0.0/8", "192.168.0.0/16"},
	}))
	_, err = c.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{Name: "b", Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: ip, PublicPort: 80, PrivatePort: 1})
	require.True(t, cloudstack.IsKind(err, cloudstack.KindConflict), "%v", err)
	done(t, c, "assignToLoadBalancerRule")(c.AssignToLoadBalancerRule(ctx, rule, cloudstack.VMs(ids...)))
	again, err := c.AssignToLoadBalancerRule(ctx, rule, cloudstack.VMs(ids[:1]...))
	require.NoError(t, err)
	_, err = c.Jobs().Wait(ctx, "assignToLoadBalancerRule", again.JobID)
	require.True(t, cloudstack.IsKind(err, cloudstack.KindJobFailed), "%v", err)
	members, err := c.ListLoadBalancerMembers(ctx, rule)
	require.NoError(t, err)
	require.Len(t, members, 2)
	require.NotEmpty(t, members[0].Addresses)

	fw := done(t, c, "createFirewallRule")(c.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{PublicIPID: ip, Protocol: "tcp", StartPort: 80, CIDRs: []string{"10.0.0.0/8"}}))
	tags := map[string]string{"cluster": "c~*", "service": "default/web"}
	done(t, c, "createTags")(c.CreateTags(ctx, "LoadBalancer", []string{rule}, tags))
	rules, err := c.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{Tags: tags})
	require.NoError(t, err)
	require.Len(t, rules, 1)
	require.Equal(t, tags, rules[0].Tags)
	require.Equal(t, []string{"10.0.0.0/8", "192.168.0.0/16"}, rules[0].CIDRs)
	require.Equal(t, "Active", rules[0].State)
	done(t, c, "deleteTags")(c.DeleteTags(ctx, "LoadBalancer", []string{rule}, []string{"cluster"}))
	done(t, c, "updateLoadBalancerRule")(c.UpdateLoadBalancerRule(ctx, cloudstack.UpdateLoadBalancerRuleRequest{ID: rule, Name: "a-tcp-81", Protocol: "tcp-proxy"}))
	done(t, c, "removeFromLoadBalancerRule")(c.RemoveFromLoadBalancerRule(ctx, rule, cloudstack.VMs(ids...)))
	firewall, err := c.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: ip})
	require.NoError(t, err)
	require.Len(t, firewall, 1)
	done(t, c, "deleteFirewallRule")(c.DeleteFirewallRule(ctx, fw))
	done(t, c, "deleteLoadBalancerRule")(c.DeleteLoadBalancerRule(ctx, rule))
	_, err = c.DeleteLoadBalancerRule(ctx, rule)
	require.True(t, cloudstack.IsNotFound(err), "%v", err)
	done(t, c, "disassociateIpAddress")(c.DisassociateIP(ctx, ip))
	gone, err := c.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: ip})
	require.NoError(t, err)
	require.Empty(t, gone)

	_, err = c.Jobs().Wait(ctx, "x", uuid.NewString())
	require.True(t, cloudstack.IsNotFound(err), "%v", err)
	caps, err := c.Capabilities(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, caps.Version)
	apis, err := c.ListAPIs(ctx)
	require.NoError(t, err)
	require.Contains(t, apis, "createLoadBalancerRule")
	err = c.Call(ctx, "listRoles", nil, new(any))
	require.True(t, cloudstack.IsKind(err, cloudstack.KindNotPermitted), "%v", err)
}

// TestLostAnswer distinguishes calls that may have taken effect from those that have not.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	cloud, client := newCloud(t)
	ctx := t.Context()
	nets, err := client.ListNetworks(ctx, cloudstack.NetworkQuery{})
	require.NoError(t, err)
	job := uuid.NewString()
	remove := cloud.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultLostAnswer})
	_, err = client.AssociateIP(ctx, cloudstack.AssociateIPRequest{NetworkID: nets[0].ID, CustomJobID: job})
	remove()
	require.True(t, cloudstack.IsKind(err, cloudstack.KindTransient), "%v", err)
	var e *cloudstack.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.MayHaveHappened)
	require.Equal(t, 1, cloud.Ledger().Count("associateIpAddress"), "a write is not repeated")
	found, err := client.Jobs().Wait(ctx, "associateIpAddress", job)
	require.NoError(t, err)
	require.NotEmpty(t, found.InstanceID)
}

// TestJobBudget: ten jobs at once cost shared polls and one result read each.
func TestJobBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, jobBudget)
}

func jobBudget(t *testing.T) {
	sim := testenv.New(t, string(simulator.ExampleYAML()), simulator.Options{})
	key, secret, _ := sim.Keys("k8s-owner")
	c := sim.Client(key, secret)
	ctx := t.Context()
	nets, err := c.ListNetworks(ctx, cloudstack.NetworkQuery{})
	require.NoError(t, err)
	ip := done(t, c, "associateIpAddress")(c.AssociateIP(ctx, cloudstack.AssociateIPRequest{NetworkID: nets[0].ID}))
	var rules []string
	for i := range 10 {
		s, err := c.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: "r" + strconv.Itoa(i), Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: ip, PublicPort: 8000 + i, PrivatePort: 30000 + i,
		})
		require.NoError(t, err)
		rules = append(rules, s.ID)
	}
	sim.Ledger().Reset()
	start := time.Now()
	var wg sync.WaitGroup
	errs := make(chan error, len(rules))
	for _, id := range rules {
		wg.Go(func() {
			s, err := c.CreateTags(ctx, "LoadBalancer", []string{id}, map[string]string{"k": "v"})
			if err == nil {
				_, err = c.Jobs().Wait(context.WithoutCancel(ctx), "createTags", s.JobID)
			}
			errs <- err
		})
	}
	wg.Wait()
	for range rules {
		require.NoError(t, <-errs)
	}
	polls := sim.Ledger().Count("listAsyncJobs")
	require.LessOrEqual(t, polls, int(time.Since(start)/(200*time.Millisecond))+1)
	require.LessOrEqual(t, sim.Ledger().Count("queryAsyncJobResult"), len(rules)+polls)
}
