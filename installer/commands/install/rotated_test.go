// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/rotate"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
)

// rotate is csccm rotate-keys with a controller that takes the keys over.
func (b *bench) rotate(t *testing.T) {
	t.Helper()
	asked := 0
	require.NoError(t, rotate.Run(t.Context(), &engine.Env{
		Cluster: cluster.NewForTest(b.kube), Prompt: prompt.NewRefusing(), Clock: b.clock, Release: engine.DefaultRelease, Yes: true,
		Progress: report.NewProgress(&b.err, report.Style{}, b.clock), Out: &b.out, ErrOut: &b.err,
		PodLogs: func(context.Context, *corev1.Pod, int64) (string, error) {
			asked++
			return strings.Repeat("Changed credentials or CA certificates are in use\n", asked-1), nil
		},
	}, rotate.Options{
		Connect: func(cfg *cloudstack.Config) (credentials.User, error) { return cloudstack.NewClient(cfg) },
		Admin: func(ctx context.Context, cfg *cloudstack.Config) (rotate.Admin, func(), error) {
			a, err := cloudstack.Login(ctx, cfg, "admin", "password", "ROOT")
			return a, func() { _ = a.Logout(context.WithoutCancel(ctx)) }, err
		},
		Required: provider.RequiredCommands, Optional: provider.OptionalCommands,
	}), b.err.String())
}

// The user whose keys are in the Secret is the controller's, whatever user the first install made or was given.
func TestInstallAgainAfterRotateKeys(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(*bench, *testing.T) Options{
		"administrator": func(b *bench, _ *testing.T) Options { return b.admin() },
		"administrator, named user": func(b *bench, _ *testing.T) Options {
			o := b.admin()
			o.Credentials.User = "csccm"
			return o
		},
		"keys": func(b *bench, t *testing.T) Options { return b.keys(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, demoNodes()...)
			b.helm.pods = func(d *appsv1.Deployment) []*corev1.Pod {
				d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Labels}
				return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "ccm-0"}, Status: corev1.PodStatus{
					Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				}}}
			}
			first := options(b, t) // a person keeps the flags, and the files that they name
			secret := func() map[string][]byte {
				s, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), credentials.SecretName, metav1.GetOptions{})
				require.NoError(t, err)
				return s.Data
			}
			made := func() int { return b.sim.Ledger().Count("createUser", "registerUserKeys") }
			require.NoError(t, b.installer(t, first).Run(t.Context()), b.err.String())
			for range 3 {
				b.rotate(t)
				keys, calls := secret(), made()
				require.NoError(t, b.installer(t, first).Run(t.Context()), b.err.String())
				require.Equal(t, keys, secret(), "the Secret is not changed")
				require.Equal(t, calls, made(), "no user and no keys are made")
			}
			users := 1
			if name != "keys" {
				users = 2
			}
			require.Equal(t, users, b.sim.Ledger().Count("createUser"), "rotations take two users in turn")
			b.requireNoSecrets(t)
		})
	}
}

// Nodes that are left as they were name the command that has them initialised.
func TestSkipTaintNamesTheCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	o := b.admin()
	o.SkipTaint = true
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), "2 nodes left as before (--skip-taint): csccm taint has the controller initialise them")
	require.Equal(t, 1, b.initialised(t))
}
