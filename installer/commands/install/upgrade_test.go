// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
)

// newEnv returns an env with these revisions of the release, newest first, and a ready Deployment.
func newEnv(t *testing.T, history ...helm.Release) *testenv.Env {
	t.Helper()
	e := testenv.New(t, testenv.Deployment(1), testenv.ReadyPod("controller-1"), testenv.Lease("controller-1_x"))
	e.Releases.Kept, e.Releases.Render = history, true
	return e
}

func release(revision int, status, chart string, values map[string]any) helm.Release {
	return helm.Release{
		Name:         "cloudstack-ccm",
		Namespace:    "kube-system",
		Revision:     revision,
		Status:       status,
		ChartVersion: chart,
		AppVersion:   "v" + chart,
		Values:       values,
	}
}

// chart returns a small chart of that version.
func chart(t *testing.T, version string) *helm.Chart {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("Chart.yaml", "apiVersion: v2\nname: cloudstack-ccm\nversion: "+version+"\nappVersion: v"+version+"\n")
	write("values.yaml", "replicaCount: 2\n")
	write("templates/a.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {replicas: \"{{ .Values.replicaCount }}\"}\n")
	c, err := helm.Load(t.Context(), dir, "", false)
	require.NoError(t, err)
	return c
}

func run(t *testing.T, e *testenv.Env, o install.Config) error {
	t.Helper()
	return install.Upgrade(t.Context(), e.Env, o)
}

// The values of the release are kept. A second run has nothing to do.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	e := newEnv(t, release(3, "deployed", "1.0.0", map[string]any{"replicaCount": 5, "kept": true}))
	for range 2 {
		require.NoError(t, run(t, e, install.Config{Chart: chart(t, "1.1.0")}), e.Stderr.String())
		require.Len(t, e.Releases.Kept, 2)
	}
	require.Equal(t, map[string]any{"replicaCount": 5, "kept": true}, e.Releases.Kept[0].Values)
	require.Contains(t, e.Stdout.String(), "revision 4 runs: chart 1.1.0, controller v1.1.0\n")
}

func TestUpgradeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		was    string // chart version of the installed release
		change func(*testenv.Env, *install.Config)
		err    string
		fix    string
		code   int
	}{
		"a downgrade": {"1.2.0-rc.1", nil, "chart 1.1.0 is older than 1.2.0-rc.1", "--allow-downgrade", 2},
		"another label": {"1.0.0", func(_ *testenv.Env, o *install.Config) {
			o.Values = map[string]any{"nameOverride": "cloud"}
		}, "nameOverride: csccm finds the controller by the label", "fullnameOverride", 2},
		"the API server refuses": {"1.0.0", func(e *testenv.Env, _ *install.Config) {
			e.Diff = func(context.Context, string, string) ([]diff.Change, error) {
				return []diff.Change{{Kind: "ConfigMap", Name: "a", Problem: "forbidden by policy"}}, nil
			}
		}, "nothing was changed: the API server refuses ConfigMap a: forbidden by policy", "policy", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, o := newEnv(t, release(1, "deployed", tc.was, nil)), install.Config{Chart: chart(t, "1.1.0")}
			if tc.change != nil {
				tc.change(e, &o)
			}
			testenv.RequireRefusal(t, run(t, e, o), tc.err, tc.fix, tc.code)
			require.Zero(t, e.Releases.Applied)
		})
	}
}

func TestDowngradeAllowed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, release(1, "deployed", "1.2.0", nil))
	require.NoError(t,
		run(t, e,
			install.Config{Chart: chart(t, "1.1.0"), AllowDowngrade: true, Values: map[string]any{"replicaCount": 1}}))
	require.Contains(t, e.Stdout.String(), "revision 2 runs: chart 1.1.0")
}

// If the new Pods do not become ready, the error names the command that goes back.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	e := newEnv(t, release(7, "deployed", "1.0.0", nil))
	e.Releases.Changed = func(ctx context.Context, _ *helm.Release) error {
		d := testenv.Deployment(1)
		d.Status.AvailableReplicas = 0
		_, err := e.Kube.AppsV1().Deployments(d.Namespace).Update(ctx, d, metav1.UpdateOptions{})
		return err
	}
	// The same upgrade can be tried again. A rollback does not use a revision that never ran.
	o := install.Config{
		Chart:  chart(t, "1.1.0"),
		Values: map[string]any{"image": map[string]any{"tag": "nope"}, "replicaCount": 1},
	}
	for n := 1; n <= 2; n++ {
		err := run(t, e, o)
		testenv.RequireRefusal(t, err, "", "csccm rollback 7", report.ExitTimeout)
		require.Contains(t, report.RemedyOf(err),
			"; the cause may be --set image.tag=nope --set replicaCount=1; or go back")
		require.Equal(t, n, e.Releases.Applied)
	}
	e.Releases.Changed = func(ctx context.Context, _ *helm.Release) error {
		_, err := e.Kube.AppsV1().Deployments(testenv.Namespace).Update(ctx, testenv.Deployment(1),
			metav1.UpdateOptions{})
		return err
	}
	require.NoError(t, install.Rollback(t.Context(), e.Env, 0))
	require.Equal(t, "1.0.0", e.Releases.Kept[0].ChartVersion)

	// If csccm is stopped while it waits, the error also names that command.
	ctx, stop := context.WithCancelCause(t.Context())
	e = newEnv(t, release(7, "deployed", "1.0.0", nil))
	e.Releases.Changed = func(context.Context, *helm.Release) error { stop(errors.New("timed out")); return nil }
	err := install.Upgrade(ctx, e.Env, install.Config{Chart: chart(t, "1.1.0")})
	require.Contains(t, report.RemedyOf(err), "go back with csccm rollback 7")
}

func TestRollback(t *testing.T) {
	t.Parallel()
	history := []helm.Release{
		release(4, "deployed", "1.2.0", nil), release(3, "failed", "1.1.0", nil),
		release(2, "superseded", "1.0.1", nil), release(1, "superseded", "1.0.0", nil),
	}

	for name, tc := range map[string]struct {
		revision int
		want     string
		err      string
	}{
		"the newest that worked": {0, "1.0.1", ""},
		"a named one":            {1, "1.0.0", ""},
		"one that is not there":  {9, "", "there is no revision 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, slices.Clone(history)...)
			err := install.Rollback(t.Context(), e.Env, tc.revision)
			if tc.err != "" {
				testenv.RequireRefusal(t, err, tc.err, "3 (failed, chart 1.1.0)", report.ExitUsage)
				return
			}
			require.NoError(t, err, e.Stderr.String())
			require.Equal(t, tc.want, e.Releases.Kept[0].ChartVersion)
			require.Contains(t, e.Stdout.String(), "revision 5 runs: chart "+tc.want)
		})
	}

	e := newEnv(t, release(1, "deployed", "1.0.0", nil))
	require.ErrorContains(t, install.Rollback(t.Context(), e.Env, 0), "there is no earlier revision that worked")
}
