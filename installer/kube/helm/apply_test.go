// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
)

func TestApply(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	apply := func(values map[string]any) (*Release, error) { return f.Apply(t.Context(), request(t, values)) }
	_, err := f.History(t.Context(), testName)
	require.ErrorIs(t, err, ErrReleaseNotFound)
	require.ErrorIs(t, f.Uninstall(t.Context(), testName), ErrReleaseNotFound)
	_, err = f.Rollback(t.Context(), testName, 0)
	require.ErrorIs(t, err, ErrReleaseNotFound)

	first, err := apply(map[string]any{"clusterName": "one", "securePort": 10300})
	require.NoError(t, err)
	require.True(t, first.Deployed())
	require.Equal(t, "v"+first.ChartVersion, first.AppVersion)

	// A failed revision is stored, and the next upgrade starts from the deployed one.
	f.kube.UpdateError = errors.New("admission webhook says no")
	rel, err := apply(map[string]any{"clusterName": "two"})
	require.EqualError(t, err, "release cloudstack-ccm in namespace kube-system: admission webhook says no")
	require.Equal(t, "failed", rel.Status)
	f.kube.UpdateError = nil
	history, err := f.History(t.Context(), testName)
	require.NoError(t, err)
	require.Equal(t, first.Values, Values(history), "the values of the deployed revision, not of the failed one")

	second, err := apply(map[string]any{"clusterName": "two"})
	require.NoError(t, err)
	require.Equal(t, []string{"1 superseded", "2 failed", "3 deployed"}, f.statuses(t))
	require.Contains(t, second.Manifest, "--cluster-name=two")
	require.Contains(t, second.Manifest, "--secure-port=10258", "the values are those of the request")

	require.NoError(t, f.NeverRan(t.Context(), testName, 3))
	require.NoError(t, f.NeverRan(t.Context(), testName, 3))
	history, err = f.History(t.Context(), testName)
	require.NoError(t, err)
	require.False(t, history[0].Worked())
	require.True(t, history[2].Worked())
	require.Equal(t, []string{"1 superseded", "2 failed", "3 deployed"}, f.statuses(t),
		"its objects are in the cluster")

	rel, err = f.Rollback(t.Context(), testName, 1)
	require.NoError(t, err)
	require.Equal(t, 4, rel.Revision)
	require.Equal(t, first.Values, rel.Values)
	for range maxHistory {
		_, err = apply(nil)
		require.NoError(t, err)
	}
	require.Len(t, f.statuses(t), maxHistory)
	require.NoError(t, f.Uninstall(t.Context(), testName))
	_, err = f.History(t.Context(), testName)
	require.ErrorIs(t, err, ErrReleaseNotFound)
}

func TestApplyRepairs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before []release.Status // status of the revisions
		want   []string
		said   string
	}{
		"first install died": {[]release.Status{release.StatusPendingInstall}, []string{"1 superseded", "2 deployed"},
			"revision 1 was left pending-install, marking it as failed"},
		"first install failed": {[]release.Status{release.StatusFailed}, []string{"1 superseded", "2 deployed"},
			"upgrading release"},
		"upgrade died": {
			[]release.Status{release.StatusDeployed, release.StatusPendingUpgrade},
			[]string{"1 superseded", "2 failed", "3 deployed"}, "revision 2 was left pending-upgrade",
		},
		"rollback died": {
			[]release.Status{release.StatusDeployed, release.StatusPendingRollback},
			[]string{"1 superseded", "2 failed", "3 deployed"}, "revision 2 was left pending-rollback",
		},
		"uninstall died": {[]release.Status{release.StatusUninstalling}, []string{"1 deployed"},
			"finishing an uninstall"},
		"uninstalled with its history kept": {[]release.Status{release.StatusUninstalled},
			[]string{"1 superseded", "2 deployed"}, "installing release"},
	} {
		f := newFixture(t)
		f.ForceUnlock = true
		for i, status := range tc.before {
			f.put(t, i+1, status)
		}

		rel, err := f.Apply(t.Context(), request(t, nil))
		require.NoError(t, err, name)
		require.True(t, rel.Deployed(), name)
		require.Equal(t, tc.want, f.statuses(t), name)
		require.Contains(t, f.logged(), tc.said, name)
	}
}

// A pending revision may be a running `helm upgrade --wait`, whatever its age: nothing is changed.
func TestApplyRefusesBesideAnotherOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(t, 1, release.StatusDeployed)
	f.put(t, 2, release.StatusPendingUpgrade)
	_, err := f.Apply(t.Context(), request(t, nil))
	require.ErrorContains(t, err, "revision 2 is pending-upgrade since ")
	var remedied interface{ Remedy() string }
	require.ErrorAs(t, err, &remedied)
	require.Contains(t, remedied.Remedy(), "--force-unlock")
	_, err = f.Rollback(t.Context(), testName, 1)
	require.ErrorContains(t, err, "pending-upgrade")
	require.ErrorContains(t, f.Uninstall(t.Context(), testName), "pending-upgrade")
	require.Equal(t, []string{"1 deployed", "2 pending-upgrade"}, f.statuses(t))
}

// blockingKube cancels the caller's context while Helm creates objects.
type blockingKube struct {
	*kubefake.FailingKubeClient
	during func()
}

func (b *blockingKube) IsReachable() error {
	b.during()
	return nil
}

func TestApplyIsNotInterruptedOnceBegun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	configuration := f.configuration
	f.configuration = func() (*action.Configuration, error) {
		cfg, err := configuration()
		if err == nil {
			cfg.KubeClient = &blockingKube{f.kube, cancel}
		}
		return cfg, err
	}
	rel, err := f.Apply(ctx, request(t, nil))
	require.NoError(t, err)
	require.Error(t, ctx.Err())
	require.True(t, rel.Deployed())

	_, err = f.Apply(ctx, request(t, nil))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "nothing was changed")
	require.Equal(t, []string{"1 deployed"}, f.statuses(t))
}
