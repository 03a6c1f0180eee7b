// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// ApplyRequest is the desired state of a release.
type ApplyRequest struct {
	// Name of the release.
	Name  string
	Chart *Chart
	// Values override those of the deployed revision, which override the chart's defaults.
	Values map[string]any
	// ResetValues ignores the values of the deployed revision.
	ResetValues bool
	// TakeOwnership adopts existing objects that belong to no release or to another release.
	TakeOwnership bool
	// Description is stored with the revision; empty means Helm's default description.
	Description string
	// KubeVersion is the version that Template renders for (v1.37.1); empty means the cluster's version. Apply
	// always uses the cluster's version.
	KubeVersion string
}

func (r *ApplyRequest) check() error {
	switch {
	case r.Name == "":
		return errors.New("release without a name")
	case r.Chart == nil:
		return fmt.Errorf("release %s: no chart", r.Name)
	}
	return nil
}

// Apply installs or upgrades the release. It first repairs an interrupted operation: it marks a revision that has been
// pending for more than a minute as failed, and completes an interrupted uninstall. It returns as soon as the API
// server has accepted the objects and does not wait for Pods.
//
// A cancelled ctx ends Apply only before Helm has started, never later: Helm would continue in the background and
// report success.
func (c *Client) Apply(ctx context.Context, req ApplyRequest) (*Release, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	last, deployed, err := c.settle(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("release %s: nothing was changed: %w", req.Name, context.Cause(ctx))
	}
	cfg, err := c.configuration()
	if err != nil {
		return nil, err
	}
	// Do not interrupt Helm, neither by ctx nor by its deadline; see the comment of Apply.
	uncancelled := context.WithoutCancel(ctx)
	var rel *release.Release
	restore := redirectStdLog(c.log)
	if last == nil || last.Info.Status == release.StatusUninstalled {
		rel, err = c.install(uncancelled, cfg, req)
	} else {
		rel, err = c.upgrade(uncancelled, cfg, req, deployed)
	}
	restore()
	if err != nil {
		return toRelease(rel), inWords(c.explain(req.Name, err), req.Chart.Schema())
	}
	return toRelease(rel), nil
}

func (c *Client) install(ctx context.Context, cfg *action.Configuration, req ApplyRequest) (*release.Release, error) {
	c.log("installing release %s from chart %s %s", req.Name, req.Chart.Name(), req.Chart.Version())
	install := action.NewInstall(cfg)
	install.ReleaseName = req.Name
	install.Namespace = c.namespace
	install.TakeOwnership = req.TakeOwnership
	install.Description = req.Description
	install.Timeout = actionTimeout
	// Allow the name of a release that was uninstalled with --keep-history.
	install.Replace = true
	return install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values))
}

func (c *Client) upgrade(ctx context.Context, cfg *action.Configuration, req ApplyRequest, deployed bool) (*release.Release, error) {
	c.log("upgrading release %s to chart %s %s", req.Name, req.Chart.Name(), req.Chart.Version())
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace = c.namespace
	upgrade.TakeOwnership = req.TakeOwnership
	upgrade.Description = req.Description
	upgrade.Timeout = actionTimeout
	upgrade.MaxHistory = maxHistory
	// Do not reuse the values of a revision that was never deployed: they may be the cause of its failure.
	reuse := deployed && !req.ResetValues
	upgrade.ResetThenReuseValues = reuse
	upgrade.ResetValues = !reuse
	return upgrade.RunWithContext(ctx, req.Name, req.Chart.copy(), copyValues(req.Values))
}

// settle repairs an interrupted operation. It returns the latest revision (nil if there is none) and whether any
// revision is deployed.
func (c *Client) settle(ctx context.Context, name string) (last *release.Release, deployed bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, fmt.Errorf("release %s: nothing was changed: %w", name, context.Cause(ctx))
		}
		cfg, err := c.configuration()
		if err != nil {
			return nil, false, err
		}
		stored, err := cfg.Releases.History(name)
		if errors.Is(err, driver.ErrReleaseNotFound) || err == nil && len(stored) == 0 {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read release %s in namespace %s: %w", name, c.namespace, err)
		}
		last := newestFirst(stored)[0]
		switch status := last.Info.Status; {
		case status.IsPending():
			if err := c.settlePending(ctx, cfg, last); err != nil {
				return nil, false, err
			}
		case status == release.StatusUninstalling:
			c.log("release %s: finishing an uninstall that was interrupted", name)
			if err := c.uninstall(cfg, name); err != nil {
				return nil, false, err
			}
		default:
			for _, rel := range stored {
				deployed = deployed || rel.Info.Status == release.StatusDeployed
			}
			return last, deployed, nil
		}
	}
}

// settlePending waits while the operation may still be running, and then marks its revision as failed.
func (c *Client) settlePending(ctx context.Context, cfg *action.Configuration, last *release.Release) error {
	age := c.clock.Since(last.Info.LastDeployed.Time)
	// Ignore a time in the future: it comes from a machine whose clock is wrong.
	if age >= 0 && age < pendingGrace {
		c.log("release %s: revision %d has been %s for %s, another helm or csccm may be running; waiting",
			last.Name, last.Version, last.Info.Status, age.Round(time.Second))
		timer := c.clock.NewTimer(min(pendingPoll, pendingGrace-age))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return fmt.Errorf("release %s: revision %d is still %s: %w", last.Name, last.Version, last.Info.Status, context.Cause(ctx))
		case <-timer.C():
			return nil
		}
	}
	c.log("release %s: revision %d was left %s, marking it as failed", last.Name, last.Version, last.Info.Status)
	last.SetStatus(release.StatusFailed, fmt.Sprintf("%s was interrupted; marked as failed by csccm", operation(last.Info.Status)))
	if err := cfg.Releases.Update(last); err != nil {
		return fmt.Errorf("release %s: mark revision %d as failed: %w", last.Name, last.Version, err)
	}
	return nil
}

func operation(s release.Status) string {
	switch s {
	case release.StatusPendingUpgrade:
		return "upgrade"
	case release.StatusPendingRollback:
		return "rollback"
	default:
		return "install"
	}
}

// Uninstall deletes the objects of a release and its history. The error is ErrReleaseNotFound if there is no such
// release. Once Helm has started, a cancelled ctx has no effect.
func (c *Client) Uninstall(ctx context.Context, name string) error {
	last, _, err := c.settle(ctx, name)
	if err != nil {
		return err
	}
	if last == nil {
		return fmt.Errorf("release %s in namespace %s: %w", name, c.namespace, ErrReleaseNotFound)
	}
	cfg, err := c.configuration()
	if err != nil {
		return err
	}
	return c.uninstall(cfg, name)
}

func (c *Client) uninstall(cfg *action.Configuration, name string) error {
	defer redirectStdLog(c.log)()
	uninstall := action.NewUninstall(cfg)
	uninstall.Timeout = actionTimeout
	uninstall.DeletionPropagation = "background"
	if _, err := uninstall.Run(name); err != nil {
		return c.explain(name, err)
	}
	return nil
}

// Rollback creates a new revision with the content of an earlier one; revision 0 means the one before the
// latest. It does not wait for Pods. Once Helm has started, a cancelled ctx has no effect.
func (c *Client) Rollback(ctx context.Context, name string, revision int) (*Release, error) {
	last, _, err := c.settle(ctx, name)
	if err != nil {
		return nil, err
	}
	if last == nil {
		return nil, fmt.Errorf("release %s in namespace %s: %w", name, c.namespace, ErrReleaseNotFound)
	}
	cfg, err := c.configuration()
	if err != nil {
		return nil, err
	}
	rollback := action.NewRollback(cfg)
	rollback.Version = revision
	rollback.MaxHistory = maxHistory
	rollback.Timeout = actionTimeout
	restore := redirectStdLog(c.log)
	err = rollback.Run(name)
	restore()
	if err != nil {
		return nil, c.explain(name, err)
	}
	return c.Get(context.WithoutCancel(ctx), name)
}
