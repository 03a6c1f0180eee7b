// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
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
	cfg, last, deployed, err := c.settle(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	// Do not interrupt Helm, neither by ctx nor by its deadline; see the comment of Apply.
	uncancelled := context.WithoutCancel(ctx)
	var rel *revision
	restore := redirectStdLog(c.log)
	if last == nil || last.Info.Status == statusUninstalled {
		rel, err = c.install(uncancelled, cfg, req)
	} else {
		rel, err = c.upgrade(uncancelled, cfg, req, deployed)
	}
	restore()
	if err != nil {
		return toRelease(rel), inWords(explain(req.Name, c.namespace, err), req.Chart.chart.Schema)
	}
	return toRelease(rel), nil
}

func (c *Client) install(ctx context.Context, cfg *actionConfig, req ApplyRequest) (*revision, error) {
	c.log("installing release %s from chart %s %s", req.Name, req.Chart.Name(), req.Chart.Version())
	return runInstall(ctx, cfg, c.namespace, req)
}

func (c *Client) upgrade(ctx context.Context, cfg *actionConfig, req ApplyRequest, deployed bool) (*revision, error) {
	c.log("upgrading release %s to chart %s %s", req.Name, req.Chart.Name(), req.Chart.Version())
	// Do not reuse the values of a revision that was never deployed: they may be the cause of its failure.
	return runUpgrade(ctx, cfg, c.namespace, req, deployed && !req.ResetValues)
}

// settle repairs an interrupted operation. It returns the latest revision (nil if there is none), whether any revision
// is deployed, and the configuration for an action on the release.
func (c *Client) settle(ctx context.Context, name string) (cfg *actionConfig, last *revision, deployed bool, err error) {
	for err == nil {
		var stored []*revision
		cfg, stored, err = c.stored(ctx, name)
		switch {
		case ctx.Err() != nil:
			err = fmt.Errorf("release %s: nothing was changed: %w", name, context.Cause(ctx))
		case err != nil:
		case len(stored) == 0:
			return cfg, nil, false, nil
		case stored[0].Info.Status.IsPending():
			err = c.settlePending(ctx, cfg, stored[0])
		case stored[0].Info.Status == statusUninstalling:
			c.log("release %s: finishing an uninstall that was interrupted", name)
			err = c.uninstall(cfg, name)
		default:
			deployed = slices.ContainsFunc(stored, func(r *revision) bool { return r.Info.Status == statusDeployed })
			return cfg, stored[0], deployed, nil
		}
	}
	return nil, nil, false, err
}

// settleExisting is settle for an operation on a release that must exist.
func (c *Client) settleExisting(ctx context.Context, name string) (*actionConfig, error) {
	cfg, last, _, err := c.settle(ctx, name)
	if err == nil && last == nil {
		err = c.notFound(name)
	}
	return cfg, err
}

// settlePending waits while the operation may still be running, and then marks its revision as failed.
func (c *Client) settlePending(ctx context.Context, cfg *actionConfig, last *revision) error {
	age := c.clock.Since(deployedAt(last))
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
	last.SetStatus(statusFailed, fmt.Sprintf("%s was interrupted; marked as failed by csccm", operation(last.Info.Status)))
	if err := cfg.Releases.Update(last); err != nil {
		return fmt.Errorf("release %s: mark revision %d as failed: %w", last.Name, last.Version, err)
	}
	return nil
}

func operation(s revisionStatus) string {
	switch s {
	case statusPendingUpgrade:
		return "upgrade"
	case statusPendingRollback:
		return "rollback"
	default:
		return "install"
	}
}

// Uninstall deletes the objects of a release and its history. The error is ErrReleaseNotFound if there is no such
// release. Once Helm has started, a cancelled ctx has no effect.
func (c *Client) Uninstall(ctx context.Context, name string) error {
	cfg, err := c.settleExisting(ctx, name)
	if err != nil {
		return err
	}
	return c.uninstall(cfg, name)
}

func (c *Client) uninstall(cfg *actionConfig, name string) error {
	defer redirectStdLog(c.log)()
	if err := runUninstall(cfg, name); err != nil {
		return explain(name, c.namespace, err)
	}
	return nil
}

// Rollback creates a new revision with the content of an earlier one; 0 means the one before the
// latest. It does not wait for Pods. Once Helm has started, a cancelled ctx has no effect.
func (c *Client) Rollback(ctx context.Context, name string, to int) (*Release, error) {
	cfg, err := c.settleExisting(ctx, name)
	if err != nil {
		return nil, err
	}
	restore := redirectStdLog(c.log)
	err = runRollback(cfg, name, to)
	restore()
	if err != nil {
		return nil, explain(name, c.namespace, err)
	}
	return c.Get(context.WithoutCancel(ctx), name)
}
