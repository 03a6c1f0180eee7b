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

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
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
	configuration func() (*action.Configuration, error)
}

// New returns a client for the releases of a namespace. It makes no API call. The getter, usually the same
// *genericclioptions.ConfigFlags as for client-go, determines cluster and user, and what becomes of the API server's
// warnings; environment variables of the helm command have no effect. log receives Helm's debug lines; nil discards them.
func New(getter genericclioptions.RESTClientGetter, namespace string, log func(format string, v ...any)) (*Client, error) {
	if getter == nil {
		return nil, errors.New("helm: no connection to a cluster")
	}
	if namespace == "" {
		return nil, errors.New("helm: no namespace")
	}
	c := newClient(namespace, log)
	c.configuration = func() (*action.Configuration, error) {
		cfg := new(action.Configuration)
		if err := cfg.Init(getter, namespace, "secret", c.log); err != nil {
			return nil, fmt.Errorf("helm: %w", err)
		}
		if k, ok := cfg.KubeClient.(*kube.Client); ok {
			k.Namespace = namespace // not that of the kubeconfig's context
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
func (c *Client) stored(ctx context.Context, name string) (*action.Configuration, []*release.Release, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
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
	out := make([]Release, 0, len(stored))
	for _, r := range stored {
		out = append(out, *toRelease(r))
	}
	slices.SortFunc(out, func(a, b Release) int { return cmp.Compare(a.Revision, b.Revision) })
	return out, err
}
