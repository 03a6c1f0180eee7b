// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

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
			err: `zone "zone-3" not found: the zones are "zone-1", "zone-2"`, remedy: "correct or remove zone",
		},
		{name: "zones may not be listed", config: cloudstack.Config{Zone: "zone-3"}, api: zoneless{&fakeCloud{}, cloudstack.KindNotPermitted}},
		{name: "zones cannot be listed now", config: cloudstack.Config{Zone: "zone-3"}, api: zoneless{&fakeCloud{}, cloudstack.KindTransient}, err: "list zones", remedy: "if CloudStack is down"},
		{
			name: "no such project", config: cloudstack.Config{ProjectID: "prod"}, api: &fakeCloud{},
			err: `project "prod" not found: the API key's user belongs to "dev"`, remedy: "correct project-id",
		},
		{
			name: "a wrong key", api: &fakeCloud{listErr: &cloudstack.Error{Kind: cloudstack.KindAuth, Command: "listVirtualMachines"}},
			err: "listVirtualMachines", remedy: "check api-key and secret-key",
		},
		{
			name: "a project of others", config: cloudstack.Config{ProjectID: project},
			api: &fakeCloud{listErr: &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listVirtualMachines"}},
			err: project, remedy: "belongs to the project",
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
			assert.Contains(t, remedy(err), c.remedy)
		})
	}
}

func TestContactTriesUntilCloudStackIsThere(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	api := &fakeCloud{vms: machines(1), listErr: &cloudstack.Error{Kind: cloudstack.KindTransient, Command: "listVirtualMachines"}}
	p, err := assemble(&cloudstack.Config{}, o, api)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { p.contact(t.Context()); close(done) }()
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		require.Eventually(t, c.HasWaiters, waitLong, time.Millisecond)
		c.Step(time.Duration(seconds)*time.Second - time.Millisecond)
		require.True(t, c.HasWaiters(), "it waits %d s", seconds)
		c.Step(time.Millisecond)
	}
	require.Eventually(t, c.HasWaiters, waitLong, time.Millisecond)
	lists, _ := api.counts()
	assert.Equal(t, 9, lists)
	api.set(func(f *fakeCloud) { f.listErr = nil })
	c.Step(contactLastPause)
	<-done
}

func TestOutage(t *testing.T) {
	t.Parallel()
	c, _ := fakeClockOptions()
	var over []time.Duration
	o := &outage{clock: c, over: func(after time.Duration) { over = append(over, after) }}
	down := errors.New("connection refused")
	way := roundTripper(func(*http.Request) (*http.Response, error) {
		if down != nil {
			return nil, down
		}
		return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody}, nil
	})
	client, err := cloudstack.NewClient(&cloudstack.Config{APIURL: "http://cs.example.org/client/api", APIKey: "a", SecretKey: "b"},
		cloudstack.WithTransport(way), cloudstack.WithJitter(func(time.Duration) time.Duration { return 0 }), cloudstack.WithObserver(o.observe))
	require.NoError(t, err)
	call := func(ctx context.Context) {
		_, err := client.ListZones(ctx)
		require.Error(t, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	down = context.Canceled
	cancel()
	call(cancelled) // nobody waits for this answer
	down = nil
	call(t.Context())
	require.Empty(t, over)
	down = errors.New("connection refused")
	call(t.Context())
	c.Step(time.Minute)
	call(t.Context()) // still
	require.Empty(t, over)
	c.Step(2 * time.Second)
	down = nil
	call(t.Context()) // refused, but by CloudStack
	call(t.Context())
	require.Equal(t, []time.Duration{time.Minute + 2*time.Second}, over)
}

// roundTripper is a way to CloudStack.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestContactEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	p, err := assemble(&cloudstack.Config{}, o, &fakeCloud{listErr: errors.New("down")})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.contact(ctx); close(done) }()
	require.Eventually(t, c.HasWaiters, waitLong, time.Millisecond)
	cancel()
	<-done
}

func TestClusterID(t *testing.T) {
	t.Parallel()
	p := &Provider{config: &cloudstack.Config{}}
	assert.Equal(t, "kubernetes", p.clusterID())
	p.options.ClusterName = "by-name"
	assert.Equal(t, "by-name", p.clusterID())
	p.config.ClusterID = "by-config"
	assert.Equal(t, "by-config", p.clusterID())
	p.options.ClusterID = "by-flag"
	assert.Equal(t, "by-flag", p.clusterID())
}

func TestClusterIDFallsBackToTheUID(t *testing.T) {
	t.Parallel()
	const uid = "0b7e4c5e-0000-4000-8000-000000000001"
	for name, tt := range map[string]struct{ flag, config, clusterName, uid, want string }{
		"the flag first":                     {"flag", "config", "name", uid, "flag"},
		"then the cloud-config":              {"", "config", "name", uid, "config"},
		"then the framework's name":          {"", "", "name", uid, "name"},
		"the framework's default is no name": {"", "", "kubernetes", uid, uid},
		"nothing given":                      {"", "", "", uid, uid},
		"an explicit id that is the default": {"kubernetes", "", "", uid, "kubernetes"},
		"the same in the cloud-config":       {"", "kubernetes", "", uid, "kubernetes"},
		"no UID could be read":               {"", "", "kubernetes", "", "kubernetes"},
	} {
		parallel(t, name, func(t *testing.T) {
			require.Equal(t, tt.want, ClusterID(tt.flag, tt.config, tt.clusterName, tt.uid))
		})
	}
}

func TestOwnClusterTag(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tag, id string
		ownUID  bool
		want    bool
	}{
		"our id":                              {"uid", "uid", false, true},
		"another cluster":                     {"other", "uid", true, false},
		"the old default, our Service":        {"kubernetes", "uid", true, true},
		"the old default, another's Service":  {"kubernetes", "uid", false, false},
		"the old default is still our own id": {"kubernetes", "kubernetes", false, true},
		"no tag":                              {"", "uid", true, false},
		"no tag and no id":                    {"", "", true, false},
	} {
		parallel(t, name, func(t *testing.T) {
			require.Equal(t, tt.want, OwnClusterTag(tt.tag, tt.id, tt.ownUID))
		})
	}
}
