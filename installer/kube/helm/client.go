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
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

const (
	// maxHistory is the number of revisions that are kept for a release.
	maxHistory = 10
	// actionTimeout limits what an action waits for: hooks and deletions.
	actionTimeout = 5 * time.Minute
)

// ErrReleaseNotFound means that the namespace has no release with that name.
var ErrReleaseNotFound = errors.New("release not found")

// Client manages the releases of one namespace. Its methods may be called concurrently for different
// releases.
type Client struct {
	// ForceUnlock marks a pending revision as failed, in place of refusing: whoever wrote it is known to be dead.
	ForceUnlock bool

	namespace string
	log       func(format string, v ...any)
	// configuration returns a new configuration for each action: actions change it.
	configuration func() (*actionConfig, error)
}

// New returns a client for the releases of a namespace. It makes no API call. The getter, usually the same
// *genericclioptions.ConfigFlags as for client-go, determines cluster and user; environment variables of
// the helm command have no effect. log receives Helm's debug lines; nil discards them.
func New(getter genericclioptions.RESTClientGetter, namespace string, log func(format string, v ...any)) (*Client, error) {
	if getter == nil {
		return nil, errors.New("helm: no connection to a cluster")
	}
	if namespace == "" {
		return nil, errors.New("helm: no namespace")
	}
	c := newClient(namespace, log)
	quiet := &quietGetter{RESTClientGetter: getter, log: c.log}
	c.configuration = func() (*actionConfig, error) {
		cfg, err := newConfig(quiet, namespace, c.log)
		if err != nil {
			return nil, fmt.Errorf("helm: %w", err)
		}
		return cfg, nil
	}
	return c, nil
}

func newClient(namespace string, log func(format string, v ...any)) *Client {
	if log == nil {
		log = func(string, ...any) {}
	}
	return &Client{namespace: namespace, log: log}
}

// quietGetter sends the API server's warnings to the log instead of the terminal.
type quietGetter struct {
	genericclioptions.RESTClientGetter
	log func(format string, v ...any)
}

func (q *quietGetter) ToRESTConfig() (*rest.Config, error) {
	c, err := q.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	c = rest.CopyConfig(c)
	c.WarningHandler = warnings(q.log)
	return c, nil
}

type warnings func(format string, v ...any)

func (w warnings) HandleWarningHeader(_ int, _, text string) { w("API server: %s", text) }

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
	if err != nil {
		return nil, err
	}
	history := make([]Release, 0, len(stored))
	for _, rel := range stored {
		history = append(history, *toRelease(rel))
	}
	return history, nil
}

// stored reads the revisions of a release, the newest first, and returns the configuration for one action on them.
func (c *Client) stored(ctx context.Context, name string) (*actionConfig, []*revision, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	cfg, err := c.configuration()
	if err != nil {
		return nil, nil, err
	}
	revisions, err := revisionsOf(cfg, name)
	if err != nil {
		return nil, nil, fmt.Errorf("read release %s in namespace %s: %w", name, c.namespace, err)
	}
	revisions = slices.Clone(revisions)
	slices.SortFunc(revisions, func(a, b *revision) int { return cmp.Compare(b.Version, a.Version) })
	return cfg, revisions, nil
}

func (c *Client) notFound(name string) error {
	return fmt.Errorf("release %s in namespace %s: %w", name, c.namespace, ErrReleaseNotFound)
}
