// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
)

func TestApplyInstallsThenUpgrades(t *testing.T) {
	t.Parallel()
	f := newFixture(t)

	first, err := f.Apply(t.Context(), request(t, map[string]any{"clusterName": "one", "securePort": 10300}))
	require.NoError(t, err)
	assert.Equal(t, 1, first.Revision)
	assert.True(t, first.Deployed())
	assert.Contains(t, first.Manifest, "name: cloudstack-cloud-controller-manager")
	assert.Equal(t, "v"+first.ChartVersion, first.AppVersion)

	second, err := f.Apply(t.Context(), request(t, map[string]any{"clusterName": "two"}))
	require.NoError(t, err)
	assert.Equal(t, 2, second.Revision)
	assert.Equal(t, []string{"1 superseded", "2 deployed"}, f.statuses(t))
	assert.Contains(t, second.Manifest, "--cluster-name=two")
	assert.Contains(t, second.Manifest, "--secure-port=10258", "the values are those of the request")
}

func TestApplyKeepsAFewRevisions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range maxHistory + 3 {
		_, err := f.Apply(t.Context(), request(t, nil))
		require.NoError(t, err)
	}
	revisions, err := f.History(t.Context(), testName)
	require.NoError(t, err)
	assert.Len(t, revisions, maxHistory)
	assert.Equal(t, maxHistory+3, revisions[0].Revision)
}

func TestApplyDoesNotChangeTheRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	values := map[string]any{"image": map[string]any{"tag": "v9"}}
	req := request(t, values)
	_, err := f.Apply(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"image": map[string]any{"tag": "v9"}}, values)
	assert.Equal(t, embedded(t).chart.Values, req.Chart.chart.Values)
}

func TestApplyRepairs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before []release.Status // of the revisions
		want   []string
		said   string
	}{
		"first install died":   {[]release.Status{release.StatusPendingInstall}, []string{"1 superseded", "2 deployed"}, "revision 1 was left pending-install, marking it as failed"},
		"first install failed": {[]release.Status{release.StatusFailed}, []string{"1 superseded", "2 deployed"}, "upgrading release"},
		"upgrade died": {
			[]release.Status{release.StatusDeployed, release.StatusPendingUpgrade}, []string{"1 superseded", "2 failed", "3 deployed"}, "revision 2 was left pending-upgrade",
		},
		"rollback died": {
			[]release.Status{release.StatusDeployed, release.StatusPendingRollback}, []string{"1 superseded", "2 failed", "3 deployed"}, "revision 2 was left pending-rollback",
		},
		"uninstall died":                    {[]release.Status{release.StatusUninstalling}, []string{"1 deployed"}, "finishing an uninstall"},
		"uninstalled with its history kept": {[]release.Status{release.StatusUninstalled}, []string{"1 superseded", "2 deployed"}, "installing release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.ForceUnlock = true
			for i, status := range tc.before {
				f.put(t, i+1, status, time.Minute, nil)
			}
			rel, err := f.Apply(t.Context(), request(t, nil))
			require.NoError(t, err)
			assert.True(t, rel.Deployed())
			assert.Equal(t, tc.want, f.statuses(t))
			assert.Contains(t, f.logged(), tc.said)
		})
	}
}

// A revision that is pending may be somebody's `helm upgrade --wait`, whatever its age: nothing is changed.
func TestApplyRefusesBesideAnotherOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(t, 1, release.StatusDeployed, time.Hour, nil)
	f.put(t, 2, release.StatusPendingUpgrade, time.Hour, nil)
	_, err := f.Apply(t.Context(), request(t, nil))
	require.ErrorContains(t, err, "revision 2 is pending-upgrade since ")
	var remedied interface{ Remedy() string }
	require.ErrorAs(t, err, &remedied)
	require.Contains(t, remedied.Remedy(), "--force-unlock")
	_, err = f.Rollback(t.Context(), testName, 1)
	require.ErrorContains(t, err, "pending-upgrade")
	require.ErrorContains(t, f.Uninstall(t.Context(), testName), "pending-upgrade")
	assert.Equal(t, []string{"1 deployed", "2 pending-upgrade"}, f.statuses(t))
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
	assert.True(t, rel.Deployed())

	_, err = f.Apply(ctx, request(t, nil))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "nothing was changed")
	assert.Equal(t, []string{"1 deployed"}, f.statuses(t))
}

func TestApplyFailureIsStoredAndRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Apply(t.Context(), request(t, map[string]any{"clusterName": "one"}))
	require.NoError(t, err)

	f.kube.UpdateError = errors.New("admission webhook says no")
	rel, err := f.Apply(t.Context(), request(t, map[string]any{"clusterName": "two"}))
	require.EqualError(t, err, "release cloudstack-ccm in namespace kube-system: admission webhook says no")
	assert.Equal(t, "failed", rel.Status)
	assert.Equal(t, []string{"1 deployed", "2 failed"}, f.statuses(t))

	f.kube.UpdateError = nil
	history, err := f.History(t.Context(), testName)
	require.NoError(t, err)
	kept := Values(history)
	assert.Equal(t, map[string]any{"clusterName": "one"}, kept, "the values of the deployed revision, not of the failed one")
	_, err = f.Apply(t.Context(), request(t, kept))
	require.NoError(t, err)
	assert.Equal(t, []string{"1 superseded", "2 failed", "3 deployed"}, f.statuses(t))
}

func TestHistoryUninstallRollback(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()

	_, err := f.History(ctx, testName)
	require.ErrorIs(t, err, ErrReleaseNotFound)
	require.ErrorContains(t, err, "release cloudstack-ccm in namespace kube-system")
	require.ErrorIs(t, f.Uninstall(ctx, testName), ErrReleaseNotFound)
	_, err = f.Rollback(ctx, testName, 0)
	require.ErrorIs(t, err, ErrReleaseNotFound)

	_, err = f.Apply(ctx, request(t, map[string]any{"clusterName": "one"}))
	require.NoError(t, err)
	_, err = f.Apply(ctx, request(t, map[string]any{"clusterName": "two"}))
	require.NoError(t, err)

	rel, err := f.Rollback(ctx, testName, 0)
	require.NoError(t, err)
	assert.Equal(t, 3, rel.Revision)
	assert.Equal(t, map[string]any{"clusterName": "one"}, rel.Values)

	require.NoError(t, f.Uninstall(ctx, testName))
	_, err = f.History(ctx, testName)
	require.ErrorIs(t, err, ErrReleaseNotFound)
}
