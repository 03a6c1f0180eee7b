// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/selftest"
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

// zoneless is a CloudStack whose role may not list zones.
type zoneless struct {
	*fakeCloud
	kind cloudstack.Kind
}

func (z zoneless) ListZones(context.Context) ([]cloudstack.Zone, error) {
	return nil, &cloudstack.Error{Kind: z.kind, Command: "listZones"}
}

func TestTryContact(t *testing.T) {
	t.Parallel()
	const project = "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b"
	for _, c := range []struct {
		name   string
		config cloudstack.Config
		api    inventory.API
		err    string
		remedy string
	}{
		{name: "no zone", api: &fakeCloud{vms: machines(1)}},
		{name: "an empty account", api: &fakeCloud{}},
		{name: "a zone by name", config: cloudstack.Config{Zone: "Zone-1"}, api: &fakeCloud{}},
		{name: "a zone by id", config: cloudstack.Config{Zone: "z2"}, api: &fakeCloud{}},
		{
			name: "no such zone", config: cloudstack.Config{Zone: "zone-3"}, api: &fakeCloud{},
			err: `there is no zone "zone-3"`, remedy: "set zone in the cloud-config to one of these, or remove it: zone-1, zone-2",
		},
		{name: "zones may not be listed", config: cloudstack.Config{Zone: "zone-3"}, api: zoneless{&fakeCloud{}, cloudstack.KindNotPermitted}},
		{name: "zones cannot be listed now", config: cloudstack.Config{Zone: "zone-3"}, api: zoneless{&fakeCloud{}, cloudstack.KindTransient}, err: "list zones", remedy: "if CloudStack is down"},
		{
			name: "no such project", config: cloudstack.Config{ProjectID: "prod"}, api: &fakeCloud{},
			err: `project "prod" not found: the API key's user belongs to "dev"`, remedy: "set project-id",
		},
		{
			name: "a wrong key", api: &fakeCloud{listErr: &cloudstack.Error{Kind: cloudstack.KindAuth, Command: "listVirtualMachines"}},
			err: "listVirtualMachines", remedy: "check both keys",
		},
		{
			name: "a project of others", config: cloudstack.Config{ProjectID: project},
			api: &fakeCloud{listErr: &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listVirtualMachines"}},
			err: project, remedy: "a member of the project",
		},
		{name: "anything else", api: &fakeCloud{listErr: errors.New("odd")}, err: "odd", remedy: "see the error"},
		{
			name: "no API there", api: &fakeCloud{listErr: &cloudstack.Error{Kind: cloudstack.KindUnknown, Command: "listVirtualMachines"}},
			err: "listVirtualMachines", remedy: "check api-url",
		},
	} {
		parallel(t, c.name, func(t *testing.T) {
			p, err := assemble(&c.config, DefaultOptions(), c.api)
			require.NoError(t, err)
			_, err = p.tryContact(t.Context())
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
			assert.Contains(t, selftest.Remedy(err), c.remedy)
		})
	}
}

func TestContactTriesUntilCloudStackIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &fakeCloud{vms: machines(1), listErr: &cloudstack.Error{Kind: cloudstack.KindTransient, Command: "listVirtualMachines"}}
		p, err := assemble(&cloudstack.Config{}, DefaultOptions(), api)
		require.NoError(t, err)
		begun, done := time.Now(), make(chan struct{})
		go func() { p.contact(t.Context()); close(done) }()
		time.Sleep(time.Minute + time.Second)
		assert.Equal(t, 7, api.listed(), "one try each 10 seconds")
		api.set(func(f *fakeCloud) { f.listErr = nil })
		<-done
		assert.Equal(t, 70*time.Second, time.Since(begun))
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()
	c, _ := fakeClockOptions()
	var over []time.Duration
	o := &outage{clock: c, over: func(after time.Duration) { over = append(over, after) }}
	answered, silent := cloudstack.Observation{Code: http.StatusUnauthorized}, cloudstack.Observation{Silent: true}
	for _, step := range []struct {
		call  cloudstack.Observation
		after time.Duration
	}{
		{cloudstack.Observation{}, 0}, // the caller gave up
		{answered, 0},
		{silent, time.Minute},
		{silent, 2 * time.Second}, // still
		{answered, 0},             // refused, but by CloudStack
		{answered, 0},
	} {
		o.observe(step.call)
		c.Step(step.after)
	}
	require.Equal(t, []time.Duration{time.Minute + 2*time.Second}, over)
}
