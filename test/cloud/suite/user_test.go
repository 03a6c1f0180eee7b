// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// TestPlainUser works with the keys of a plain user: in the user's own account, with less coverage, and what was there stays.
func TestPlainUser(t *testing.T) {
	t.Parallel()
	cloud, err := testenv.StartCloudStack(nil) // the example world, in which the user has a network with VMs
	require.NoError(t, err)
	t.Cleanup(cloud.Stop)
	key, secret, ok := cloud.Keys("k8s-owner")
	if !ok {
		t.Fatal("the user has no keys")
	}
	var log bytes.Buffer
	o := Options{URL: cloud.URL, Who: api.Credentials{APIKey: key, SecretKey: secret}, JournalDir: t.TempDir(), Log: &log}
	before := namesIn(t, cloud)
	r, err := Start(t.Context(), o)
	require.NoError(t, err)
	if r.world.Can.Admin || r.world.Account != "k8s" {
		t.Errorf("%+v in account %s", r.world.Can, r.world.Account)
	}
	for _, s := range scenarios() {
		reason := r.able(&s)
		// The example world's user may do everything but what administrators may.
		if want := slices.Contains(s.needs, needAdmin) || slices.Contains(s.needs, needExpunge); (reason != nil) != want {
			t.Errorf("%s: cannot is %v, want %v", s.name, reason, want)
		}
	}
	p := &place{Run: r, kind: isolated}
	require.NoError(t, p.makeNetwork(t.Context()))
	e := &env{place: p, ctx: t.Context()}
	require.NoError(t, must.Catch(func() { e.acquire() }))
	// What was in the account before is out of reach.
	list, err := r.world.User.List(t.Context(), "listVirtualMachines", "virtualmachine", nil)
	require.NoError(t, err)
	for _, vm := range list {
		if strings.HasPrefix(vm.Text("name"), "demo-") {
			if _, err := r.world.User.Do(t.Context(), "stopVirtualMachine", api.Params{"id": vm.Text("id")}); api.Code(err) != 403 {
				t.Errorf("VM %s, which was there before, could be stopped: %v", vm.Text("name"), err)
			}
		}
	}
	err = r.Stop(t.Context())
	if err == nil || !strings.Contains(err.Error(), "not expunged") {
		t.Errorf("a plain user cannot expunge VMs, and the error does not say so: %v", err)
	}
	for _, name := range before {
		if !slices.Contains(namesIn(t, cloud), name) {
			t.Errorf("%s is gone, and was there before the run", name)
		}
	}
}

// TestLentVMs: with CLOUD_VMS no VM is made, and what needs VMs of the suite's own cannot be done.
func TestLentVMs(t *testing.T) {
	t.Parallel()
	cloud, err := testenv.StartCloudStack(nil)
	require.NoError(t, err)
	t.Cleanup(cloud.Stop)
	key, secret, _ := cloud.Keys("k8s-owner")
	var log bytes.Buffer
	r, err := Start(t.Context(), Options{
		URL: cloud.URL, Who: api.Credentials{APIKey: key, SecretKey: secret}, JournalDir: t.TempDir(), Log: &log, VMs: []string{"demo-worker-1", "demo-worker-2"},
	})
	require.NoError(t, err)
	before := namesIn(t, cloud)
	p := &place{Run: r, kind: isolated}
	require.NoError(t, p.makeNetwork(t.Context()))
	if len(p.vms) != 2 || p.network.Name != "k8s-net" {
		t.Errorf("%+v in %+v", p.vms, p.network)
	}
	if err := must.Catch(func() {
		e := &env{place: p, ctx: t.Context()}
		_, id := e.acquire()
		rule := e.do("createLoadBalancerRule", api.Params{
			"name": "x", "publicipid": id, "algorithm": "roundrobin", "publicport": "80", "privateport": "30080", "openfirewall": "false",
		})
		e.do("assignToLoadBalancerRule", api.Params{"id": rule.Text("id"), "virtualmachineids": p.vms[0].ID})
		e.release(id)
		others := e.rules("203.0.113.20") // of somebody else, in the same network
		must.Be(len(others) == 2, "rules %v", others)
		for command, id := range map[string]string{"destroyVirtualMachine": p.vms[0].ID, "deleteLoadBalancerRule": others["80"].ID} {
			_, err := r.world.User.Do(t.Context(), command, api.Params{"id": id})
			must.Be(api.Code(err) == 403, "%s of what was lent, or is of others: %v", command, err)
		}
	}); err != nil {
		t.Error(err)
	}
	for _, s := range scenarios() {
		if slices.Contains(s.needs, needOwnVMs) && r.able(&s) == nil {
			t.Errorf("%s is run on lent VMs", s.name)
		}
	}
	require.NoError(t, r.Stop(t.Context()))
	if after := namesIn(t, cloud); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}
