// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"

	"github.com/csccm/csccm/installer/engine/report"
)

// ApplyRequest is the desired state of a release.
type ApplyRequest struct {
	// Name of the release.
	Name  string
	Chart *Chart
	// Values override the chart's defaults. Those of the release do not count: see Values.
	Values map[string]any
	// Description is stored with the revision; empty means Helm's default description.
	Description string
	// KubeVersion is the version that Template renders for (v1.37.1). Apply uses the cluster's version.
	KubeVersion string
	// Tests has Template render the chart's tests too, as helm template does.
	Tests bool
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

// Values returns the values that a change of a release starts from: those of the newest revision that is deployed. The values
// of one that never was may be the cause of its failure. history is that of the release, the newest first.
func Values(history []Release) map[string]any {
	for i := range history {
		if history[i].Deployed() {
			return history[i].Values
		}
	}
	return nil
}

// Apply installs or upgrades the release. It completes an interrupted uninstall, and refuses, as Helm does, while a revision
// is pending; see Client.ForceUnlock. It returns as soon as the API server has accepted the objects and does not wait for
// Pods.
//
// A cancelled ctx ends Apply only before Helm has started, never later: Helm would continue in the background and
// report success.
func (c *Client) Apply(ctx context.Context, req ApplyRequest) (*Release, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	cfg, last, err := c.settle(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	// Do not interrupt Helm, neither by ctx nor by its deadline; see the comment of Apply.
	uncancelled := context.WithoutCancel(ctx)
	var rel *release.Release
	if last == nil || last.Info.Status == release.StatusUninstalled {
		c.log("installing release %s from chart %s %s", req.Name, req.Chart.Name(), req.Chart.Version())
		install := action.NewInstall(cfg)
		install.ReleaseName, install.Namespace, install.Description, install.Timeout = req.Name, c.namespace, req.Description, actionTimeout
		install.Replace = true // allow the name of a release that was uninstalled with --keep-history
		rel, err = install.RunWithContext(uncancelled, req.Chart.copy(), copyValues(req.Values))
	} else {
		c.log("upgrading release %s to chart %s %s", req.Name, req.Chart.Name(), req.Chart.Version())
		upgrade := action.NewUpgrade(cfg)
		upgrade.Namespace, upgrade.Description, upgrade.Timeout = c.namespace, req.Description, actionTimeout
		upgrade.MaxHistory, upgrade.ResetValues = maxHistory, true
		rel, err = upgrade.RunWithContext(uncancelled, req.Name, req.Chart.copy(), copyValues(req.Values))
	}
	if err != nil {
		err = explain(req.Name, c.namespace, err, req.Chart.chart.Schema)
	}
	return toRelease(rel), err
}

// settle completes an interrupted uninstall. It returns the latest revision (nil if there is none) and the configuration
// for an action on the release.
func (c *Client) settle(ctx context.Context, name string) (cfg *action.Configuration, last *release.Release, err error) {
	for err == nil {
		var stored []*release.Release
		cfg, stored, err = c.stored(ctx, name)
		switch {
		case ctx.Err() != nil:
			err = fmt.Errorf("release %s: nothing was changed: %w", name, context.Cause(ctx))
		case err != nil:
		case len(stored) == 0:
			return cfg, nil, nil
		case stored[0].Info.Status.IsPending():
			err = c.settlePending(cfg, stored[0])
		case stored[0].Info.Status == release.StatusUninstalling:
			c.log("release %s: finishing an uninstall that was interrupted", name)
			err = c.uninstall(cfg, name)
		default:
			return cfg, stored[0], nil
		}
	}
	return nil, nil, err
}

// settleExisting is settle for an operation on a release that must exist.
func (c *Client) settleExisting(ctx context.Context, name string) (*action.Configuration, error) {
	cfg, last, err := c.settle(ctx, name)
	if err == nil && last == nil {
		err = c.notFound(name)
	}
	return cfg, err
}

// Pending returns the error of a release whose newest revision is being written, or was left so; nil for any other.
func Pending(r *Release) error {
	if r == nil || !strings.HasPrefix(r.Status, "pending") {
		return nil
	}
	return &report.Error{
		What: fmt.Sprintf("release %s: revision %d is %s since %s: helm or csccm is working on it, or was killed", r.Name, r.Revision, r.Status, r.Updated.UTC().Format(time.RFC3339)),
		Fix:  "wait until that has ended; if nobody works on it any more, run the command with --force-unlock",
	}
}

// settlePending refuses an operation beside another one, unless it is known to have died.
func (c *Client) settlePending(cfg *action.Configuration, last *release.Release) error {
	if !c.ForceUnlock {
		return Pending(toRelease(last))
	}
	c.log("release %s: revision %d was left %s, marking it as failed", last.Name, last.Version, last.Info.Status)
	last.SetStatus(release.StatusFailed, "it was interrupted; marked as failed by csccm")
	if err := cfg.Releases.Update(last); err != nil {
		return fmt.Errorf("release %s: mark revision %d as failed: %w", last.Name, last.Version, err)
	}
	return nil
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

func (c *Client) uninstall(cfg *action.Configuration, name string) error {
	uninstall := action.NewUninstall(cfg)
	uninstall.Timeout, uninstall.DeletionPropagation = actionTimeout, "background"
	if _, err := uninstall.Run(name); err != nil {
		return explain(name, c.namespace, err, nil)
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
	rollback := action.NewRollback(cfg)
	rollback.Version, rollback.MaxHistory, rollback.Timeout = to, maxHistory, actionTimeout
	if err := rollback.Run(name); err != nil {
		return nil, explain(name, c.namespace, err, nil)
	}
	return c.Get(context.WithoutCancel(ctx), name)
}
