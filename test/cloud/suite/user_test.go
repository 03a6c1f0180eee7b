// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/cloud/world"
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
	o := Options{URL: cloud.URL, Who: world.Credentials{APIKey: key, SecretKey: secret}, JournalDir: t.TempDir(), Log: &log}
	before := namesIn(t, cloud)
	r, err := Start(t.Context(), o)
	require.NoError(t, err)
	if r.world.Root || r.world.Account != "k8s" {
		t.Errorf("root: %v, in account %s", r.world.Root, r.world.Account)
	}
	for _, s := range scenarios() {
		reason := must.Catch(func() { r.able(&s) })
		// The example world's user may do everything but what administrators may.
		if want := s.need == needRoot; (reason != nil) != want {
			t.Errorf("%s: cannot is %v, want %v", s.name, reason, want)
		}
	}
	p := &place{Run: r, kind: isolated}
	e := &env{place: p, ctx: t.Context()}
	require.NoError(t, must.Catch(func() { p.makeNetwork(t.Context()); e.acquire() }))
	// What was in the account before is out of reach.
	list, err := r.world.User.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	for _, vm := range list {
		if strings.HasPrefix(vm.Name, "demo-") {
			err := must.Catch(func() { e.do("stopVirtualMachine", world.Params{"id": vm.ID}) })
			require.ErrorContains(t, err, "the guard of this test run refuses", "VM %s was there before", vm.Name)
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
