// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/helmpath"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"helm.sh/helm/v3/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// What this package uses of Helm 3; the rest of the package uses only these names.
type (
	actionConfig   = action.Configuration
	chartData      = chart.Chart
	bufferedFile   = loader.BufferedFile
	revision       = release.Release
	revisionStatus = release.Status
	kubeVersion    = chartutil.KubeVersion
	registryClient = registry.Client
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
	loadFiles = loader.LoadFiles
	loadPath  = loader.Load

	parseKubeVersion = chartutil.ParseKubeVersion
	parseSet         = strvals.ParseInto
	parseSetString   = strvals.ParseIntoString
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

func runUpgrade(ctx context.Context, cfg *actionConfig, namespace string, req ApplyRequest) (*revision, error) {
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace = namespace
	upgrade.Description = req.Description
	upgrade.Timeout = actionTimeout
	upgrade.MaxHistory = maxHistory
	upgrade.ResetValues = true
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

// remoteChart says what locate downloads.
type remoteChart struct {
	name, version  string
	repository     string // "" for a URL of a package, and for OCI
	user, password string
	plainHTTP      bool
	cache          string // directory
}

// locate downloads a chart as helm install does, and returns its file.
func locate(r remoteChart) (string, error) {
	var web *http.Client
	if !r.plainHTTP && !loopback(r.name) {
		// Helm's default client tries again without TLS. Whoever impersonates the registry would get the login.
		web = &http.Client{Transport: registryTransport()}
	}
	client, err := newRegistryClient(RegistryConfig(), r.plainHTTP, web)
	if err != nil {
		return "", err
	}
	install := action.NewInstall(&action.Configuration{})
	install.SetRegistryClient(client)
	install.RepoURL, install.Version, install.PlainHTTP = r.repository, r.version, r.plainHTTP
	install.Username, install.Password = r.user, r.password
	settings := cli.New()
	settings.RepositoryCache, settings.RepositoryConfig = cacheOf(r.cache)
	return install.LocateChart(r.name, settings)
}

// loopback reports whether a registry is on this machine, where plain HTTP is safe.
func loopback(ref string) bool {
	u, err := url.Parse(ref)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
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
