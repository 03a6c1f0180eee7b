// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build helm4

package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/helmpath"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/provenance"
	"helm.sh/helm/v4/pkg/registry"
	releaser "helm.sh/helm/v4/pkg/release"
	status "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	repo "helm.sh/helm/v4/pkg/repo/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"
)

// What this package uses of Helm 4. sdk_helm3.go has the same of Helm 3; the rest of the package uses only these names.
type (
	actionConfig   = action.Configuration
	chartData      = chart.Chart
	chartFile      = common.File
	bufferedFile   = archive.BufferedFile
	revision       = release.Release
	revisionStatus = status.Status
	kubeVersion    = common.KubeVersion
	indexFile      = repo.IndexFile
	indexEntry     = repo.ChartVersion
	registryClient = registry.Client
	signatory      = provenance.Signatory
)

const (
	statusDeployed        = status.StatusDeployed
	statusFailed          = status.StatusFailed
	statusUninstalled     = status.StatusUninstalled
	statusUninstalling    = status.StatusUninstalling
	statusPendingUpgrade  = status.StatusPendingUpgrade
	statusPendingRollback = status.StatusPendingRollback

	hookTest = release.HookTest

	// keepApply lets an upgrade or rollback write objects as the revision before did.
	keepApply = "auto"
)

var (
	loadFiles   = loader.LoadFiles
	loadPath    = loader.Load
	loadArchive = loader.LoadArchive

	parseKubeVersion = common.ParseKubeVersion
	parseSet         = strvals.ParseInto
	parseSetString   = strvals.ParseIntoString
	matchTag         = registry.GetTagMatchingVersionOrConstraint

	loadIndex   = repo.LoadIndexFile
	newIndex    = repo.NewIndexFile
	openKeyring = provenance.NewFromKeyring
)

// newConfig returns a configuration for one action.
func newConfig(getter genericclioptions.RESTClientGetter, namespace string, log func(format string, v ...any)) (*actionConfig, error) {
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(lines(log)))
	if err := cfg.Init(getter, namespace, "secret"); err != nil {
		return nil, err
	}
	if k, ok := cfg.KubeClient.(*kube.Client); ok {
		// Override the namespace of the kubeconfig's context.
		k.Namespace = namespace
	}
	return cfg, nil
}

// lines is a slog.Handler that writes each record as a line, with its attributes.
type lines func(format string, v ...any)

func (lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l lines) WithGroup(string) slog.Handler          { return l }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, " %s=%v", a.Key, a.Value)
		return true
	})
	l("%s", line.String())
	return nil
}

// asRevision returns what an action or the storage returns as a release of the only version that csccm makes.
func asRevision(from releaser.Releaser, err error) (*revision, error) {
	switch r := from.(type) {
	case nil:
		return nil, err
	case *release.Release:
		return r, err
	case release.Release:
		return &r, err
	default:
		return nil, errors.Join(err, fmt.Errorf("release of the unknown kind %T", from))
	}
}

// revisionsOf returns the stored revisions of a release in any order.
func revisionsOf(cfg *actionConfig, name string) ([]*revision, error) {
	stored, err := cfg.Releases.History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := make([]*revision, 0, len(stored))
	for _, s := range stored {
		r, err := asRevision(s, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// deployedAt returns when an action last wrote the revision.
func deployedAt(r *revision) time.Time { return r.Info.LastDeployed }

func runInstall(ctx context.Context, cfg *actionConfig, namespace string, req ApplyRequest) (*revision, error) {
	install := action.NewInstall(cfg)
	install.ReleaseName = req.Name
	install.Namespace = namespace
	install.Description = req.Description
	install.Timeout = actionTimeout
	install.WaitStrategy = kube.HookOnlyStrategy
	// As Helm 3 writes objects, so that either major can continue what the other began.
	install.ServerSideApply = false
	// Allow the name of a release that was uninstalled with --keep-history.
	install.Replace = true
	return asRevision(install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values)))
}

func runUpgrade(ctx context.Context, cfg *actionConfig, namespace string, req ApplyRequest, reuse bool) (*revision, error) {
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace = namespace
	upgrade.Description = req.Description
	upgrade.Timeout = actionTimeout
	upgrade.WaitStrategy = kube.HookOnlyStrategy
	upgrade.ServerSideApply = keepApply
	upgrade.MaxHistory = maxHistory
	upgrade.ResetThenReuseValues = reuse
	upgrade.ResetValues = !reuse
	return asRevision(upgrade.RunWithContext(ctx, req.Name, req.Chart.copy(), copyValues(req.Values)))
}

func runUninstall(cfg *actionConfig, name string) error {
	uninstall := action.NewUninstall(cfg)
	uninstall.Timeout = actionTimeout
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	uninstall.DeletionPropagation = "background"
	_, err := uninstall.Run(name)
	return err
}

func runRollback(cfg *actionConfig, name string, to int) error {
	rollback := action.NewRollback(cfg)
	rollback.Version = to
	rollback.MaxHistory = maxHistory
	rollback.Timeout = actionTimeout
	rollback.WaitStrategy = kube.HookOnlyStrategy
	rollback.ServerSideApply = keepApply
	return rollback.Run(name)
}

// blankEnds matches the blank lines at the end of an object, of which Helm 3 leaves none.
var blankEnds = regexp.MustCompile(`\n{2,}---\n`)

// runTemplate renders without a cluster.
func runTemplate(ctx context.Context, namespace string, version *kubeVersion, req ApplyRequest) (*revision, error) {
	install := action.NewInstall(action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler)))
	install.ReleaseName = req.Name
	install.Namespace = namespace
	install.DryRunStrategy = action.DryRunClient
	install.Replace = true
	install.KubeVersion = version
	r, err := asRevision(install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values)))
	if r != nil {
		r.Manifest = blankEnds.ReplaceAllString(r.Manifest, "\n---\n") // as Helm 3 prints it
	}
	return r, err
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
func clearSign(key *signatory, file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	packaged, err := loader.LoadFile(file)
	if err != nil {
		return "", err
	}
	metadata, err := yaml.Marshal(packaged.Metadata)
	if err != nil {
		return "", err
	}
	return key.ClearSign(data, filepath.Base(file), metadata)
}
