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
