// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine/report"
)

// What the run refuses, the dry run refuses too, with the same words and exit code.
func TestDryRunPromisesWhatTheRunDoes(t *testing.T) {
	t.Parallel()
	elsewhere := func(t *testing.T, b *bench) {
		t.Helper()
		b.putSecret(t, "[Global]\napi-url="+b.url+"\napi-key=a-canary\nsecret-key=b-canary\n")
	}
	for name, tc := range map[string]struct {
		change func(*testing.T, *bench, *Options)
		says   string // "" = it goes on
		code   int
	}{
		"fine":                     {func(*testing.T, *bench, *Options) {}, "", 0},
		"other keys in the Secret": {func(t *testing.T, b *bench, _ *Options) { elsewhere(t, b) }, "Secret kube-system/cloudstack-secret exists and differs: api-key differs", report.ExitUsage},
		"other keys in the Secret, to be overwritten": {func(t *testing.T, b *bench, o *Options) {
			elsewhere(t, b)
			o.OverwriteSecret = true
		}, "", 0},
		"a Secret without the new user's keys": {func(t *testing.T, b *bench, o *Options) {
			elsewhere(t, b)
			*o = b.admin()
		}, "it would hold the new user's keys", report.ExitUsage},
		"the keys' account": {func(_ *testing.T, _ *bench, o *Options) { o.Credentials.Account = "k8s" }, "", 0},
		"another account than the keys'": {func(_ *testing.T, _ *bench, o *Options) { o.Credentials.Account = "nosuch" },
			"--account nosuch does not match the keys: the VMs that they see are of account k8s", report.ExitUsage},
		"another account than that of the Secret's keys": {func(t *testing.T, b *bench, o *Options) {
			k := o.Credentials.Keys
			b.putSecret(t, "[Global]\napi-url="+b.url+"\napi-key="+k.APIKey+"\nsecret-key="+k.SecretKey+"\n")
			*o = Options{Yes: true, Credentials: CredentialOptions{Account: "nosuch"}}
		}, "--account nosuch does not match the keys", report.ExitUsage},
		"flags for a user that nobody makes": {func(_ *testing.T, _ *bench, o *Options) {
			o.Credentials.CreateAccount, o.Credentials.User = true, "x"
		}, "--create-account, --user is for the user that an administrator makes", report.ExitUsage},
		"a failed check": {func(_ *testing.T, b *bench, _ *Options) {
			b.failing = []check.Result{{Code: "CCM-003", Outcome: check.Failed, Message: "another controller", Remedy: "stop it"}}
		}, "CCM-003 failed", report.ExitCheckFailed},
		"a node without a VM": {func(t *testing.T, b *bench, _ *Options) {
			_, err := b.kube.CoreV1().Nodes().Create(t.Context(), aNode("stranger", "10.1.1.99"), metav1.CreateOptions{})
			require.NoError(t, err)
		}, "cannot be initialised safely", report.ExitCheckFailed},
		"an unknown zone": {func(_ *testing.T, _ *bench, o *Options) { o.Zone = "zone-9" }, `there is no zone "zone-9"`, report.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, demoNodes()...)
			o := b.keys(t)
			tc.change(t, b, &o)
			dry := o
			dry.DryRun, dry.Yes = true, false
			promised := b.installer(t, dry).Run(t.Context())
			if tc.says == "" {
				require.NoError(t, promised)
				require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
				return
			}
			require.ErrorContains(t, promised, tc.says)
			var coder interface {
				ExitCode() int
				Remedy() string
			}
			require.ErrorAs(t, promised, &coder)
			require.Equal(t, tc.code, coder.ExitCode())
			require.NotEmpty(t, coder.Remedy())
			require.EqualError(t, b.installer(t, o).Run(t.Context()), promised.Error())
			b.requireNoSecretsIn(t, promised.Error()+coder.Remedy())
		})
	}
}

// The plan that is agreed to in the end does not list what was made in CloudStack before.
func TestPlanDoesNotListFinishedWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	in := b.installer(t, b.admin())
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Empty(t, in.plan.CloudStack.Steps)
	require.Equal(t, []string{`user "kubeadmin"`, `API keys of user "kubeadmin"`}, in.plan.CloudStack.Done)
	require.NoError(t, in.printText(&b.out))
	require.Contains(t, b.out.String(), "  CloudStack  done: user \"kubeadmin\"\n")
	require.NotContains(t, b.out.String(), "create user")
}
