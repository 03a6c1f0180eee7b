// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
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

// mounted is a cloud-config file, as the kubelet mounts a Secret, and a provider that uses it.
type mounted struct {
	*nodeEnv
	t     *testing.T
	file  string
	clock *clocktesting.FakeClock
	p     *Provider
}

func newMounted(t *testing.T, env *nodeEnv) *mounted {
	t.Helper()
	m := &mounted{nodeEnv: env, t: t, file: filepath.Join(t.TempDir(), "cloud-config"), clock: clocktesting.NewFakeClock(time.Now())}
	cfg := env.Config(testAPIKey, testSecret)
	m.write(string(cfg.Render()))
	o := DefaultOptions()
	o.ConfigFile, o.Clock = m.file, m.clock
	var err error
	m.p, err = New(cfg, o, env.Option(), testenv.NoJitter)
	require.NoError(t, err)
	m.p.reloader = newReloader(m.p, cfg.Render())
	return m
}

func (m *mounted) write(text string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(m.file, []byte(text), 0o600))
}

// look runs one round, after any pause.
func (m *mounted) look() {
	m.clock.Step(reloadLastPause + time.Second)
	m.p.reloader.look(m.t.Context())
}

func (m *mounted) counts() (ok, refused, invalid, pending float64) {
	r := m.p.reloader
	return testutil.ToFloat64(r.results.WithLabelValues(reloadOK)), testutil.ToFloat64(r.results.WithLabelValues(reloadRefused)),
		testutil.ToFloat64(r.results.WithLabelValues(reloadInvalid)), testutil.ToFloat64(r.pending)
}

// caller returns the user of the controller's next call.
func (m *mounted) caller() string {
	m.t.Helper()
	m.Ledger().Reset()
	_, err := m.p.client.ListVirtualMachines(m.t.Context(), cloudstack.VMQuery{})
	require.NoError(m.t, err)
	calls := m.Ledger().Calls()
	return calls[len(calls)-1].Caller
}

// rotationEnv has a second user, ccm2, in the account of the VMs.
func rotationEnv(t *testing.T) *nodeEnv {
	t.Helper()
	return newNodeEnvWith(t, 3, func(world string) string {
		return strings.Replace(world, "users: [{name: ccm, password: password, apiKey: "+testAPIKey+", secretKey: "+testSecret+"}]}",
			"users: [{name: ccm, password: password, apiKey: "+testAPIKey+", secretKey: "+testSecret+"}, {name: ccm2, password: password, apiKey: new-key, secretKey: new-secret}]}", 1)
	})
}

func TestReloadOfRotatedKeys(t *testing.T) {
	t.Parallel()
	env := rotationEnv(t)
	m := newMounted(t, env)
	_, err := m.p.inventory.VMs(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.Equal(t, "ccm", m.caller())

	m.Ledger().Reset()
	m.look()
	assert.Empty(t, m.Ledger().Calls(), "nothing changed, nothing is called")

	m.write(string(env.Config("new-key", "wrong-secret").Render()))
	m.look()
	m.p.reloader.look(t.Context())
	ok, refused, invalid, pending := m.counts()
	assert.Equal(t, []float64{0, 1, 0, 1}, []float64{ok, refused, invalid, pending}, "one try, then a pause")
	assert.Equal(t, "ccm", m.caller(), "the old key is kept")
	m.look()
	_, refused, _, _ = m.counts()
	assert.InDelta(t, 2, refused, 0, "it is tried again")

	m.write(string(env.Config("new-key", "new-secret").Render()))
	m.p.reloader.look(t.Context())
	ok, _, _, pending = m.counts()
	assert.Equal(t, []float64{1, 0}, []float64{ok, pending}, "another text is tried at once")
	assert.Equal(t, "ccm2", m.caller())

	m.Ledger().Reset()
	_, err = m.p.inventory.VMs(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.Len(t, m.Ledger().Calls(), 1, "what the old key saw is not taken for what the new one sees")
}

func TestReloadKeepsWhatWorks(t *testing.T) {
	t.Parallel()
	env := rotationEnv(t)
	good := string(env.Config(testAPIKey, testSecret).Render())
	for _, c := range []struct {
		name   string
		text   string
		fault  *simulator.Fault
		result string
	}{
		{name: "an unknown key", text: string(env.Config("nobody", "x-secret").Render()), result: reloadRefused},
		{name: "a key of an account that sees none of the VMs", text: string(env.Config("cks-key", "cks-secret").Render()), result: reloadRefused},
		{name: "no ini", text: "api-key = x\n", result: reloadInvalid},
		{name: "half a file", text: good[:len(good)/2], result: reloadInvalid},
		{name: "an empty file", text: "", result: reloadInvalid},
		{name: "a missing CA file", text: good + "ca-file = /nowhere/ca.crt\n", result: reloadInvalid},
		{name: "another server that does not answer", text: strings.Replace(string(env.Config("new-key", "new-secret").Render()), testenv.URL, "http://127.0.0.1:1/client/api", 1), result: reloadRefused},
	} {
		parallel(t, c.name, func(t *testing.T) {
			m := newMounted(t, rotationEnv(t))
			_, err := m.p.inventory.VMs(t.Context(), time.Hour)
			require.NoError(t, err)
			m.write(c.text)
			m.look()
			assert.InDelta(t, 1, testutil.ToFloat64(m.p.reloader.results.WithLabelValues(c.result)), 0)
			assert.InDelta(t, 1, testutil.ToFloat64(m.p.reloader.pending), 0)
			assert.Equal(t, "ccm", m.caller())

			m.write(string(m.Config(testAPIKey, testSecret).Render())) // somebody puts it right
			m.look()
			assert.InDelta(t, 0, testutil.ToFloat64(m.p.reloader.pending), 0)
			ok, _, _, _ := m.counts()
			assert.Zero(t, ok, "what is in use need not be tried")
		})
	}
}

// When a replica starts, the files may already be new and its old key invalid.
func TestFollowConfigLooksAtOnceAndEnds(t *testing.T) {
	t.Parallel()
	m := newMounted(t, rotationEnv(t))
	m.write(string(m.Config("new-key", "new-secret").Render()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.p.FollowConfig(ctx); close(done) }()
	require.Eventually(t, func() bool { ok, _, _, _ := m.counts(); return ok == 1 }, waitLong, time.Millisecond)
	cancel()
	<-done
	assert.Equal(t, "ccm2", m.caller())
	(&Provider{}).FollowConfig(t.Context()) // without a file there is nothing to follow
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	a := cloudconfig.Default()
	b := a
	b.APIKey, b.SecretKey, b.APIURL, b.CAFile, b.SSLNoVerify = "x", "y", "z", "c", true
	assert.Empty(t, a.NeedsRestart(&b))
	b.ProjectID, b.Zone, b.Region, b.ClusterID, b.Timeout, b.JobTimeout, b.RateBurst = "p", "z", "r", "c", 1, 1, 1
	assert.Equal(t, []string{"project-id", "zone", "region", "timeout", "job-timeout", "rate-burst", "cluster-id"}, a.NeedsRestart(&b))
}
