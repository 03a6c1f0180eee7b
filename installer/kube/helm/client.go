// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm installs, upgrades and inspects Helm releases. It is the only package of the product that
// uses the Helm SDK, so that a new version of Helm affects only this package.
package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/csccm/csccm/installer/engine/report"
)

const (
	// maxHistory is the number of revisions that are kept for a release.
	maxHistory = 10
	// actionTimeout limits what an action waits for: hooks and deletions.
	actionTimeout = 5 * time.Minute
)

// ErrReleaseNotFound means that the namespace has no release with that name.
var ErrReleaseNotFound = errors.New("release not found")

// Client manages the releases of one namespace. Its methods may be called concurrently for different releases. None of them
// waits for Pods. Once Helm has started, a cancelled context has no effect: Helm would continue in the background and report
// success.
type Client struct {
	// ForceUnlock marks a pending revision as failed, in place of refusing: whoever wrote it is known to be dead.
	ForceUnlock bool

	namespace string
	log       func(format string, v ...any)
	// configuration returns a new configuration for each action: actions change it.
	configuration func() (*action.Configuration, error)
}

// New returns a client for the releases of a namespace. It makes no API call. The getter, usually the same
// *genericclioptions.ConfigFlags as for client-go, determines cluster and user, and what becomes of the API server's
// warnings; environment variables of the helm command have no effect. log receives Helm's debug lines.
func New(getter genericclioptions.RESTClientGetter, namespace string, log func(format string, v ...any)) *Client {
	c := &Client{namespace: namespace, log: log}
	c.configuration = func() (*action.Configuration, error) {
		cfg := new(action.Configuration)
		if err := cfg.Init(getter, namespace, "secret", log); err != nil {
			return nil, fmt.Errorf("helm: %w", err)
		}
		if k, ok := cfg.KubeClient.(*kube.Client); ok {
			k.Namespace = namespace // not that of the kubeconfig's context
		}
		return cfg, nil
	}
	return c
}

// Get returns the latest revision of a release, regardless of its status; ErrReleaseNotFound if there is none.
func (c *Client) Get(ctx context.Context, name string) (*Release, error) {
	history, err := c.History(ctx, name)
	if err != nil {
		return nil, err
	}
	return &history[0], nil
}

// History returns the stored revisions of a release, the newest first; ErrReleaseNotFound if there is none.
func (c *Client) History(ctx context.Context, name string) ([]Release, error) {
	_, stored, err := c.stored(ctx, name)
	if err == nil && len(stored) == 0 {
		err = c.notFound(name)
	}
	return releases(stored), err
}

// stored reads the revisions of a release, the newest first, and returns the configuration for one action on them.
func (c *Client) stored(ctx context.Context, name string) (*action.Configuration, []*release.Release, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("release %s: nothing was changed: %w", name, context.Cause(ctx))
	}
	cfg, err := c.configuration()
	if err != nil {
		return nil, nil, err
	}
	revisions, err := cfg.Releases.History(name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil, fmt.Errorf("read release %s in namespace %s: %w", name, c.namespace, err)
	}
	revisions = slices.Clone(revisions)
	slices.SortFunc(revisions, func(a, b *release.Release) int { return cmp.Compare(b.Version, a.Version) })
	return cfg, revisions, nil
}

func (c *Client) notFound(name string) error {
	return fmt.Errorf("release %s in namespace %s: %w", name, c.namespace, ErrReleaseNotFound)
}

// settle completes an interrupted uninstall, and refuses an operation beside another one, unless that is known to have died. It
// returns the latest revision (nil if there is none) and the configuration for an action on the release.
func (c *Client) settle(ctx context.Context, name string) (*action.Configuration, *release.Release, error) {
	for {
		cfg, stored, err := c.stored(ctx, name)
		if err != nil || len(stored) == 0 {
			return cfg, nil, err
		}
		last := stored[0]
		switch {
		case last.Info.Status.IsPending() && !c.ForceUnlock:
			return nil, nil, Pending(&releases(stored)[0])
		case last.Info.Status.IsPending():
			c.log("release %s: revision %d was left %s, marking it as failed", last.Name, last.Version, last.Info.Status)
			last.SetStatus(release.StatusFailed, "it was interrupted; marked as failed by csccm")
			err = cfg.Releases.Update(last)
		case last.Info.Status == release.StatusUninstalling:
			c.log("release %s: finishing an uninstall that was interrupted", name)
			err = c.uninstall(cfg, name)
		default:
			return cfg, last, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("release %s: %w", name, err)
		}
	}
}

// Pending returns the error of a release whose newest revision is being written, or was left so; nil for any other.
func Pending(r *Release) error {
	if !strings.HasPrefix(r.Status, "pending") {
		return nil
	}
	return &report.Error{
		What: fmt.Sprintf("release %s: revision %d is %s since %s: helm or csccm is working on it, or was killed", r.Name, r.Revision, r.Status, r.Updated.UTC().Format(time.RFC3339)),
		Fix:  "wait until that has ended; if nobody works on it any more, run the command with --force-unlock",
	}
}

// Apply installs or upgrades the release. It returns as soon as the API server has accepted the objects.
func (c *Client) Apply(ctx context.Context, req ApplyRequest) (*Release, error) {
	cfg, last, err := c.settle(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	var rel *release.Release
	if last == nil || last.Info.Status == release.StatusUninstalled {
		c.log("installing release %s from chart %s", req.Name, req.Chart.Version())
		install := action.NewInstall(cfg)
		install.ReleaseName, install.Namespace, install.Description, install.Timeout = req.Name, c.namespace, req.Description, actionTimeout
		install.Replace = true // allow the name of a release that was uninstalled with --keep-history
		rel, err = install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values))
	} else {
		c.log("upgrading release %s to chart %s", req.Name, req.Chart.Version())
		upgrade := action.NewUpgrade(cfg)
		upgrade.Namespace, upgrade.Description, upgrade.Timeout = c.namespace, req.Description, actionTimeout
		upgrade.MaxHistory, upgrade.ResetValues = maxHistory, true
		rel, err = upgrade.RunWithContext(ctx, req.Name, req.Chart.copy(), copyValues(req.Values))
	}
	if err != nil {
		err = explain(req.Name, c.namespace, err, req.Chart.chart.Schema)
	}
	if rel == nil {
		return nil, err
	}
	return &releases([]*release.Release{rel})[0], err
}

// Uninstall deletes the objects of a release and its history. The error is ErrReleaseNotFound if there is no such release.
func (c *Client) Uninstall(ctx context.Context, name string) error {
	cfg, last, err := c.settle(ctx, name)
	switch {
	case err != nil:
		return err
	case last == nil:
		return c.notFound(name)
	}
	return c.uninstall(cfg, name)
}

func (c *Client) uninstall(cfg *action.Configuration, name string) error {
	uninstall := action.NewUninstall(cfg)
	uninstall.Timeout, uninstall.DeletionPropagation = actionTimeout, "background"
	_, err := uninstall.Run(name)
	return err
}

// Rollback creates a new revision with the content of an earlier one; 0 means the one before the latest.
func (c *Client) Rollback(ctx context.Context, name string, to int) (*Release, error) {
	cfg, last, err := c.settle(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case last == nil:
		return nil, c.notFound(name)
	}
	rollback := action.NewRollback(cfg)
	rollback.Version, rollback.MaxHistory, rollback.Timeout = to, maxHistory, actionTimeout
	if err := rollback.Run(name); err != nil {
		return nil, explain(name, c.namespace, err, nil)
	}
	return c.Get(context.WithoutCancel(ctx), name)
}

// listing reads Secrets with the context of a caller: Helm's own has none.
type listing struct {
	typedcorev1.SecretInterface
	ctx context.Context //nolint:containedctx // of one call
}

func (l listing) List(_ context.Context, o metav1.ListOptions) (*corev1.SecretList, error) {
	return l.SecretInterface.List(l.ctx, o) //nolint:contextcheck // that is what it is for
}

// Records returns the revisions that Helm keeps of a release in Secrets, the oldest first. What Helm cannot decode is left
// out.
func Records(ctx context.Context, secrets typedcorev1.SecretInterface, name string) ([]Release, error) {
	stored, err := driver.NewSecrets(listing{secrets, ctx}).Query(map[string]string{"owner": "helm", "name": name})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	out := releases(stored)
	slices.SortFunc(out, func(a, b Release) int { return cmp.Compare(a.Revision, b.Revision) })
	return out, err
}
