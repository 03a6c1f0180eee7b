// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !helm4

package helm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/helmpath"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/provenance"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/repo"
	"helm.sh/helm/v3/pkg/storage/driver"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// What this package uses of Helm 3. helm4/sdk_helm4.go has the same of Helm 4; the rest of the package uses only these names.
type (
	actionConfig   = action.Configuration
	chartData      = chart.Chart
	chartFile      = chart.File
	bufferedFile   = loader.BufferedFile
	revision       = release.Release
	revisionStatus = release.Status
	kubeVersion    = chartutil.KubeVersion
	indexFile      = repo.IndexFile
	indexEntry     = repo.ChartVersion
	registryClient = registry.Client
	signatory      = provenance.Signatory
)

const (
	statusDeployed        = release.StatusDeployed
	statusFailed          = release.StatusFailed
	statusUninstalled     = release.StatusUninstalled
	statusUninstalling    = release.StatusUninstalling
	statusPendingUpgrade  = release.StatusPendingUpgrade
	statusPendingRollback = release.StatusPendingRollback

	hookTest = release.HookTest
)

var (
	loadFiles   = loader.LoadFiles
	loadPath    = loader.Load
	loadArchive = loader.LoadArchive

	parseKubeVersion = chartutil.ParseKubeVersion
	parseSet         = strvals.ParseInto
	parseSetString   = strvals.ParseIntoString
	matchTag         = registry.GetTagMatchingVersionOrConstraint

	loadIndex   = repo.LoadIndexFile
	newIndex    = repo.NewIndexFile
	openKeyring = provenance.NewFromKeyring
)

// newConfig returns a configuration for one action.
func newConfig(getter genericclioptions.RESTClientGetter, namespace string, log func(format string, v ...any)) (*actionConfig, error) {
	cfg := new(action.Configuration)
	if err := cfg.Init(getter, namespace, "secret", log); err != nil {
		return nil, err
	}
	if k, ok := cfg.KubeClient.(*kube.Client); ok {
		// Override the namespace of the kubeconfig's context.
		k.Namespace = namespace
	}
	return cfg, nil
}

// revisionsOf returns the stored revisions of a release in any order.
func revisionsOf(cfg *actionConfig, name string) ([]*revision, error) {
	all, err := cfg.Releases.History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	return all, err
}

// deployedAt returns when an action last wrote the revision.
func deployedAt(r *revision) time.Time { return r.Info.LastDeployed.Time }

func runInstall(ctx context.Context, cfg *actionConfig, namespace string, req ApplyRequest) (*revision, error) {
	install := action.NewInstall(cfg)
	install.ReleaseName = req.Name
	install.Namespace = namespace
	install.Description = req.Description
	install.Timeout = actionTimeout
	// Allow the name of a release that was uninstalled with --keep-history.
	install.Replace = true
	return install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values))
}

func runUpgrade(ctx context.Context, cfg *actionConfig, namespace string, req ApplyRequest, reuse bool) (*revision, error) {
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace = namespace
	upgrade.Description = req.Description
	upgrade.Timeout = actionTimeout
	upgrade.MaxHistory = maxHistory
	upgrade.ResetThenReuseValues = reuse
	upgrade.ResetValues = !reuse
	return upgrade.RunWithContext(ctx, req.Name, req.Chart.copy(), copyValues(req.Values))
}

func runUninstall(cfg *actionConfig, name string) error {
	uninstall := action.NewUninstall(cfg)
	uninstall.Timeout = actionTimeout
	uninstall.DeletionPropagation = "background"
	_, err := uninstall.Run(name)
	return err
}

func runRollback(cfg *actionConfig, name string, to int) error {
	rollback := action.NewRollback(cfg)
	rollback.Version = to
	rollback.MaxHistory = maxHistory
	rollback.Timeout = actionTimeout
	return rollback.Run(name)
}

// runTemplate renders without a cluster.
func runTemplate(ctx context.Context, namespace string, version *kubeVersion, req ApplyRequest) (*revision, error) {
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName = req.Name
	install.Namespace = namespace
	install.DryRun = true
	install.DryRunOption = "client"
	install.ClientOnly = true
	install.Replace = true
	install.KubeVersion = version
	return install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values))
}

// newRegistryClient returns a client that reads the credentials of a file; web may be nil.
func newRegistryClient(credentials string, plainHTTP bool, web *http.Client) (*registryClient, error) {
	options := []registry.ClientOption{
		registry.ClientOptWriter(io.Discard), registry.ClientOptEnableCache(true), registry.ClientOptCredentialsFile(credentials),
	}
	if plainHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	if web != nil {
		options = append(options, registry.ClientOptHTTPClient(web))
	}
	return registry.NewClient(options...)
}

// registryTransport is Helm's transport for registries, which tries again.
func registryTransport() http.RoundTripper { return registry.NewTransport(false) }

// credentialsFile is the file that `helm registry login` writes.
func credentialsFile() string { return helmpath.ConfigPath(registry.CredentialsFileBasename) }

// pushTo pushes a packaged chart, with its provenance file unless that is empty.
func pushTo(client *registryClient, reference string, data, signed []byte, when time.Time) error {
	options := []registry.PushOption{
		registry.PushOptCreationTime(when.UTC().Format(time.RFC3339)),
		registry.PushOptStrictMode(false), // strict mode rejects versions with a plus sign
	}
	if len(signed) > 0 {
		options = append(options, registry.PushOptProvData(signed))
	}
	_, err := client.Push(data, reference, options...)
	return err
}

// clearSign returns the provenance file of a packaged chart.
func clearSign(key *signatory, file string) (string, error) { return key.ClearSign(file) }
