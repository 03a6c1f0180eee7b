// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func (b *bench) putSecret(t *testing.T, cloudConfig string) {
	t.Helper()
	_, err := b.kube.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: credentials.SecretName},
		Data:       map[string][]byte{credentials.SecretKey: []byte(cloudConfig)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// expire replaces the keys of the VMs' owner, so that those known are worth nothing.
func (b *bench) expire(t *testing.T) {
	t.Helper()
	cfg := cloudconfig.Default()
	cfg.APIURL = b.url
	admin, err := cloudstack.Login(t.Context(), &cfg, "admin", "password", "ROOT")
	require.NoError(t, err)
	users, err := admin.ListUsers(t.Context(), "k8s-owner", "", "")
	require.NoError(t, err)
	_, err = admin.RegisterUserKeys(t.Context(), users[0].ID)
	require.NoError(t, err)
}

// Each bad input is one line of what and why and one of how to go on, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*testing.T, *bench, *Options)
		err    string
		fix    string
		code   int
	}{
		"no permission": {func(_ *testing.T, b *bench, _ *Options) {
			b.kube.PrependReactor("list", "nodes", func(ktesting.Action) (bool, kruntime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
			})
		}, "nodes is forbidden", "cluster administrator", 1},
		"the API server refuses an object": {func(_ *testing.T, b *bench, _ *Options) {
			b.diff = func(context.Context, string, string, string) ([]diff.Change, error) {
				return []diff.Change{{Kind: "ClusterRole", Name: "x", Action: diff.Create, Problem: "is attempting to grant RBAC permissions not currently held"}}, nil
			}
		}, "nothing was changed: the API server refuses ClusterRole x", "granted", 3},
		"a Secret with a broken cloud-config": {func(t *testing.T, b *bench, o *Options) {
			b.putSecret(t, "[Global]\nsecret-key = word-canary\nflavour = vanilla-canary\n")
			*o = Options{Yes: true}
		}, "Secret kube-system/cloudstack-secret", "correct the Secret", 2},
		"the key expired": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			b.expire(t)
		}, "does not accept the API keys", "check both keys", 1},
		"the key in the Secret expired": {func(t *testing.T, b *bench, o *Options) {
			k := b.keys(t).Credentials.Keys
			b.putSecret(t, "[Global]\napi-url = "+b.url+"\napi-key = "+k.APIKey+"\nsecret-key = "+k.SecretKey+"\n")
			*o = Options{Yes: true}
			b.expire(t)
		}, "does not accept the API keys", "check both keys", 1},
		"a URL that is no CloudStack": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			o.Credentials.APIURL = strings.TrimSuffix(b.url, "/client/api") + "/elsewhere"
		}, "/elsewhere", "--api-url", 1},
		"nothing listens there": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			o.Credentials.APIURL = "http://127.0.0.1:1/client/api"
		}, "no CloudStack API answers at http://127.0.0.1:1/client/api", "--api-url", 1},
		"a certificate of an unknown authority": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			server := httptest.NewTLSServer(b.sim.Handler())
			t.Cleanup(server.Close)
			o.Credentials.APIURL = server.URL + "/client/api"
		}, "no CloudStack API answers at https://", "--ca-file", 1},
		"an unknown project": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			o.Project = "no-such-project"
		}, `there is no project "no-such-project"`, "--project", 2},
		"an unknown zone": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			o.Zone = "zone-9"
		}, `there is no zone "zone-9"`, "zone-1", 2},
		"an account to be made for VMs that another one owns": {func(_ *testing.T, _ *bench, o *Options) {
			o.Credentials.Account, o.Credentials.CreateAccount = "nobody", true
		}, "a new one would own none of the cluster's VMs", "--project NAME", 2},
		"an unknown zone, before the user is made": {func(_ *testing.T, _ *bench, o *Options) {
			o.Zone = "zone-9"
		}, `there is no zone "zone-9"`, "zone-1", 2},
		"a CA file that is none": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			o.Credentials.CAFile = filepath.Join(t.TempDir(), "none.crt")
		}, "--ca-file", "PEM", 2},
		"a full disk": {func(t *testing.T, b *bench, o *Options) {
			*o = b.keys(t)
			o.Journal = "/dev/full"
		}, "no space left on device; nothing has been changed", "--journal", 1},
		"a full disk, before the user is made": {func(_ *testing.T, _ *bench, o *Options) {
			o.Journal = "/dev/full"
		}, "no space left on device; nothing has been changed", "--journal", 1},
		"a Secret that the new user's keys would replace": {func(t *testing.T, b *bench, _ *Options) {
			k := b.keys(t).Credentials.Keys
			b.putSecret(t, "[Global]\napi-url = "+b.url+"\napi-key = "+k.APIKey+"\nsecret-key = "+k.SecretKey+"\n")
		}, "exists and differs", "--overwrite-secret", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, demoNodes()...)
			o := b.admin()
			tc.change(t, b, &o)
			made := []string{"createRole", "createRolePermission", "createAccount", "createUser", "registerUserKeys"}
			before, users := len(b.kube.Actions()), b.sim.Ledger().Count(made...)
			in := b.installer(t, o)
			in.Diff = b.diff
			err := in.Run(t.Context())
			require.ErrorContains(t, err, tc.err)
			require.NotContains(t, err.Error(), "\n", "one line")
			var r interface{ Remedy() string }
			require.ErrorAs(t, err, &r)
			require.Contains(t, r.Remedy(), tc.fix)
			var c interface{ ExitCode() int }
			if tc.code != report.ExitFailure {
				require.ErrorAs(t, err, &c)
				require.Equal(t, tc.code, c.ExitCode())
			}
			requireOnlyTheList(t, b.kube.Actions()[before:])
			if b.diff == nil {
				require.Equal(t, users, b.sim.Ledger().Count(made...), "nor is CloudStack")
			}
			require.Zero(t, b.helm.applied)
			b.requireNoSecretsIn(t, err.Error()+r.Remedy())
		})
	}
}

func (b *bench) requireNoSecretsIn(t *testing.T, text string) {
	t.Helper()
	api, secret, ok := b.sim.Keys("k8s-owner")
	require.True(t, ok)
	for _, s := range []string{api, secret, "canary"} {
		require.NotContains(t, text+b.out.String()+b.err.String(), s)
	}
}

// A certificate of a private authority is trusted by --ca-file, also later, by
// who has only the Secret.
func TestPrivateCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	server := httptest.NewTLSServer(b.sim.Handler())
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	o := b.keys(t)
	o.Credentials.APIURL, o.Credentials.CAFile = server.URL+"/client/api", ca
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	require.NoError(t, b.installer(t, Options{Yes: true, Values: b.helm.release.Values}).Run(t.Context()), b.err.String())
}

// A release that another run left pending or failed is brought to its end.
func TestHalfInstalledRelease(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"failed", "pending-install", "pending-upgrade"} {
		b := newBench(t, demoNodes()...)
		b.helm.release = &helm.Release{Name: engine.DefaultRelease, Status: status, Revision: 1, ChartVersion: "0.0.1"}
		require.NoError(t, b.installer(t, b.keys(t)).Run(t.Context()), b.err.String())
		require.Equal(t, 1, b.helm.applied, status)
		require.Equal(t, 3, b.initialised(t))
	}
}

// 40 columns: no line of text is longer, apart from words that cannot be broken.
func TestNarrowTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	in := b.installer(t, b.keys(t))
	in.Progress = report.NewProgress(&b.err, report.Style{Width: 40}, b.clock)
	require.NoError(t, in.Run(t.Context()), b.err.String())
	for line := range strings.Lines(b.err.String()) {
		line = strings.TrimRight(line, "\n")
		if len([]rune(line)) > 40 {
			require.Len(t, strings.Fields(strings.TrimLeft(line, " ✓!→>-")), 1, "%q", line)
		}
	}
}
