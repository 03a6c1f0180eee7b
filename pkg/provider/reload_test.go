// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// A changed cloud-config is used only if it works. Otherwise the old one stays in use, and the new one is tried again.
func TestReload(t *testing.T) {
	t.Parallel()
	cloud := testenv.New(t, lbWorld, simulator.Options{})
	config := func(key, secret string) string { return string(cloud.Config(key, secret).Render()) }
	good, next := config(testAPIKey, testSecret), config("inspect", "inspect")
	otherKey, otherSecret, _ := cloud.Keys("other")
	clock, o := clocktesting.NewFakeClock(time.Now()), DefaultOptions()
	o.ConfigFile, o.Clock = filepath.Join(t.TempDir(), "cloud-config"), clock
	p, err := New(cloud.Config(testAPIKey, testSecret), o, cloud.Option(), testenv.NoJitter)
	require.NoError(t, err)
	p.reloader = newReloader(p, []byte(good))
	_, err = p.inventory.VMs(t.Context(), time.Hour)
	require.NoError(t, err)
	cloud.Ledger().Reset()
	caller := func() string { // returns the caller of the controller's next call
		_, err := p.client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
		require.NoError(t, err)
		calls := cloud.Ledger().Calls()
		return calls[len(calls)-1].Caller
	}
	type counts struct{ ok, refused, invalid, pending float64 }
	for i, step := range []struct {
		name, text string
		after      time.Duration
		want       counts
		caller     string
	}{
		{"nothing changed", good, 0, counts{}, "ccm"},
		{"a wrong secret", config("inspect", "wrong"), 0, counts{0, 1, 0, 1}, "ccm"},
		{"the same at once: a pause", config("inspect", "wrong"), 0, counts{0, 1, 0, 1}, "ccm"},
		{"the same after the pause", config("inspect", "wrong"), reloadLastPause, counts{0, 2, 0, 1}, "ccm"},
		{"an unknown key", config("nobody", "x-secret"), 0, counts{0, 3, 0, 1}, "ccm"},
		{"a key of an account that sees none of the VMs", config(otherKey, otherSecret), 0, counts{0, 4, 0, 1}, "ccm"},
		{"no server", strings.Replace(next, testenv.URL, "http://127.0.0.1:1/client/api", 1), 0, counts{0, 5, 0, 1},
			"ccm"},
		{"no ini", "api-key = x\n", 0, counts{0, 5, 1, 1}, "ccm"},
		{"half a file", good[:len(good)/2], 0, counts{0, 5, 2, 1}, "ccm"},
		{"an empty file", "", 0, counts{0, 5, 3, 1}, "ccm"},
		{"a missing CA file", good + "ca-file = /nowhere/ca.crt\n", 0, counts{0, 5, 4, 1}, "ccm"},
		{"what is in use need not be tried", good, 0, counts{0, 5, 4, 0}, "ccm"},
		{"another key, at once", next, 0, counts{1, 5, 4, 0}, "inspector"},
	} {
		require.NoError(t, os.WriteFile(o.ConfigFile, []byte(step.text), 0o600))
		clock.Step(step.after)
		p.reloader.look(t.Context())
		if i == 0 {
			assert.Empty(t, cloud.Ledger().Calls(), step.name)
		}
		of := func(result string) float64 { return testutil.ToFloat64(p.reloader.results.WithLabelValues(result)) }
		assert.Equal(t, step.want,
			counts{of(reloadOK), of(reloadRefused), of(reloadInvalid), testutil.ToFloat64(p.reloader.pending)},
			step.name)
		assert.Equal(t, step.caller, caller(), step.name)
	}
	inUse, err := cloudconfig.Parse(strings.NewReader(next))
	require.NoError(t, err)
	assert.Equal(t, State{Loaded: clock.Now(), Config: inUse.Digests(), Refused: map[string]time.Time{}}, p.State())
	require.NoError(t, os.WriteFile(o.ConfigFile, []byte(next+"region = r\n"), 0o600))
	p.reloader.look(t.Context())
	p.client.Role().Note("", "createTags", false)
	p.client.Role().Note("", "listTags", true)
	p.client.Role().Note("a Service's", "createTags", false)
	says := p.State()
	assert.Equal(t, []string{"region"}, says.Waits)
	assert.Contains(t, says.Refused, "createTags")
	assert.Len(t, says.Refused, 1, "nothing of a project that a Service names")
	shown, err := json.Marshal(says)
	require.NoError(t, err)
	assert.NotContains(t, string(shown), inUse.SecretKey)
	require.NoError(t, os.WriteFile(o.ConfigFile, []byte(next), 0o600))
	p.reloader.look(t.Context())
	assert.Empty(t, p.State().Waits)

	cloud.Ledger().Reset()
	_, err = p.inventory.VMs(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.Len(t, cloud.Ledger().Calls(), 1, "what the old key saw is not taken for what the new one sees")

	// When a replica starts, the files may already be newer than its key, which is then invalid.
	require.NoError(t, os.WriteFile(o.ConfigFile, []byte(good), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.FollowConfig(ctx)
	assert.InDelta(t, 1, testutil.ToFloat64(p.reloader.pending), 0,
		"it is looked at once, here without the time for a call")
	(&Provider{}).FollowConfig(t.Context()) // without a file there is nothing to follow
}

func TestOutage(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(time.Now())
	o := &outage{clock: c}
	var was []bool
	answered, silent, gaveUp := cloudstack.Observation{
		Code: http.StatusUnauthorized,
	}, cloudstack.Observation{Silent: true}, cloudstack.Observation{}
	for _, call := range []cloudstack.Observation{gaveUp, answered, silent, silent, answered, answered} {
		o.observe(call)
		was = append(was, o.silent())
	}
	require.Equal(t, []bool{false, false, true, true, false, false}, was,
		"an error that CloudStack sends is an answer, too")
}
