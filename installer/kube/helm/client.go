// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm installs, upgrades and inspects Helm releases. It is the only package of the product that
// uses the Helm SDK, so that a new version of Helm affects only this package.
package helm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/csccm/csccm/installer/report"
)

const (
	// maxHistory is the number of revisions that are kept for a release.
	maxHistory = 10
	// actionTimeout limits what an action waits for: hooks and deletions.
	actionTimeout = 5 * time.Minute
)

// ErrReleaseNotFound means that the namespace has no release with that name.
var ErrReleaseNotFound = driver.ErrReleaseNotFound

// Client manages the releases of one namespace. Its methods may be called concurrently for different releases. None of
// them waits for Pods. After Helm has started, cancelling the context has no effect: Helm would continue in the
// background and report success.
type Client struct {
	// ForceUnlock marks a pending revision as failed instead of refusing the action; use only if that Helm operation
	// has crashed.
	ForceUnlock bool

	namespace string
	log       func(format string, v ...any)
	// configuration returns a new configuration for each action: actions change it.
	configuration func() (*action.Configuration, error)
}

// New returns a client for the releases of a namespace. It makes no API call. The getter, usually the same
// *genericclioptions.ConfigFlags as for client-go, determines the cluster, the user and the handling of the API
// server's warnings; environment variables of the helm command have no effect. log receives Helm's debug lines.
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

// History returns the stored revisions of a release, the newest first; ErrReleaseNotFound if there is none.
func (c *Client) History(ctx context.Context, name string) ([]Release, error) {
	_, stored, err := c.stored(ctx, name)
	return releases(stored), err
}

// stored returns the revisions of a release, the newest first, and the configuration for one action on them.
func (c *Client) stored(ctx context.Context, name string) (*action.Configuration, []*release.Release, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("release %s: nothing was changed: %w", name, context.Cause(ctx))
	}
	cfg, err := c.configuration()
	if err != nil {
		return nil, nil, err
	}
	revisions, err := cfg.Releases.History(name)
	if err != nil {
		return cfg, nil, fmt.Errorf("release %s in namespace %s: %w", name, c.namespace, err)
	}
	revisions = slices.Clone(revisions)
	slices.SortFunc(revisions, func(a, b *release.Release) int { return cmp.Compare(b.Version, a.Version) })
	return cfg, revisions, nil
}

// settle prepares an action on a release: it completes an interrupted uninstall, and refuses to run beside another
// operation unless ForceUnlock is set. It returns the latest revision and the configuration for the action; with
// ErrReleaseNotFound it returns the configuration too.
func (c *Client) settle(ctx context.Context, name string) (*action.Configuration, *release.Release, error) {
	for {
		cfg, stored, err := c.stored(ctx, name)
		if err != nil {
			return cfg, nil, err
		}

		last := stored[0]
		switch {
		case last.Info.Status.IsPending() && !c.ForceUnlock:
			return nil, nil, Pending(&releases(stored)[0])
		case last.Info.Status.IsPending():
			c.log("release %s: revision %d was left %s, marking it as failed", last.Name, last.Version,
				last.Info.Status)
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

// Pending returns an error if a revision is being written or its operation was interrupted; otherwise nil.
func Pending(r *Release) error {
	if !strings.HasPrefix(r.Status, "pending") {
		return nil
	}
	return report.Errorf(
		"wait until it has ended; if that process has crashed, run the command with --force-unlock",
		"release %s: revision %d is %s since %s: helm or csccm is working on it, or was killed",
		r.Name, r.Revision, r.Status, r.Updated.UTC().Format(time.RFC3339),
	)
}

// Apply installs or upgrades the release. It returns as soon as the API server has accepted the objects.
func (c *Client) Apply(ctx context.Context, req ApplyRequest) (*Release, error) {
	cfg, last, err := c.settle(ctx, req.Name)
	absent := errors.Is(err, ErrReleaseNotFound)
	if err != nil && !absent {
		return nil, err
	}

	ctx = context.WithoutCancel(ctx)
	var rel *release.Release
	if absent || last.Info.Status == release.StatusUninstalled {
		c.log("installing release %s from chart %s", req.Name, req.Chart.Version())
		install := action.NewInstall(cfg)
		install.ReleaseName = req.Name
		install.Namespace = c.namespace
		install.Description = req.description()
		install.Timeout = actionTimeout
		install.Replace = true // allow the name of a release that was uninstalled with --keep-history
		rel, err = install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values))
	} else {
		c.log("upgrading release %s to chart %s", req.Name, req.Chart.Version())
		upgrade := action.NewUpgrade(cfg)
		upgrade.Namespace, upgrade.Description, upgrade.Timeout = c.namespace, req.description(), actionTimeout
		upgrade.MaxHistory, upgrade.ResetValues = maxHistory, true
		rel, err = upgrade.RunWithContext(ctx, req.Name, req.Chart.copy(), copyValues(req.Values))
	}
	if err != nil {
		err = explain(req.Name, c.namespace, err, req.Chart.chart.Schema, req.Values)
	}
	if rel == nil {
		return nil, err
	}

	return &releases([]*release.Release{rel})[0], err
}

// Uninstall deletes the objects of a release and its history. The error is ErrReleaseNotFound if there is no such
// release.
func (c *Client) Uninstall(ctx context.Context, name string) error {
	cfg, _, err := c.settle(ctx, name)
	if err != nil {
		return err
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
	cfg, _, err := c.settle(ctx, name)
	if err != nil {
		return nil, err
	}
	rollback := action.NewRollback(cfg)
	rollback.Version, rollback.MaxHistory, rollback.Timeout = to, maxHistory, actionTimeout
	if err := rollback.Run(name); err != nil {
		return nil, explain(name, c.namespace, err, nil, nil)
	}
	history, err := c.History(context.WithoutCancel(ctx), name)
	if err != nil {
		return nil, err
	}
	return &history[0], nil
}

// NeverRan records in a revision that its Pods never became ready. The objects of the revision are still in the
// cluster.
func (c *Client) NeverRan(ctx context.Context, name string, revision int) error {
	cfg, stored, err := c.stored(context.WithoutCancel(ctx), name)
	for _, r := range stored {
		if r.Version == revision && !strings.HasPrefix(r.Info.Description, neverRan) {
			r.Info.Description = neverRan + r.Info.Description
			return cfg.Releases.Update(r)
		}
	}
	return err
}

// Records returns the revisions of a release from Helm's Secrets, the oldest first. It omits revisions that Helm cannot
// decode.
func Records(secrets typedcorev1.SecretInterface, name string) ([]Release, error) {
	stored, err := driver.NewSecrets(secrets).Query(map[string]string{"owner": "helm", "name": name})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	out := releases(stored)
	slices.SortFunc(out, func(a, b Release) int { return cmp.Compare(a.Revision, b.Revision) })
	return out, err
}

// ApplyRequest is the desired state of a release.
type ApplyRequest struct {
	// Name of the release.
	Name  string
	Chart *Chart
	// Values override the chart's defaults. The values of the existing release are not used: see Values.
	Values map[string]any
	// Description is stored with the revision; empty means Helm's default description.
	Description string
	// Decided are the names of values that csccm chose based on the cluster. They are stored with the description.
	Decided []string
	// KubeVersion is the version that Template renders for (v1.37.1). Apply uses the cluster's version.
	KubeVersion string
	// Tests makes Template render the chart's tests too, as helm template does.
	Tests bool
}

// Template calls the function Template with the client's namespace.
func (c *Client) Template(ctx context.Context, req ApplyRequest) (string, error) {
	return Template(ctx, c.namespace, req)
}

// Template renders a release's manifest. It does not need a cluster. req.KubeVersion is required:
// charts depend on it, and Helm's default is a version that is out of support.
func Template(ctx context.Context, namespace string, req ApplyRequest) (string, error) {
	wanted, err := chartutil.ParseKubeVersion(req.KubeVersion)
	if err != nil {
		return "", fmt.Errorf("kubernetes version %q: want a version such as v1.37.1", req.KubeVersion)
	}

	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace, install.KubeVersion = req.Name, namespace, wanted
	install.DryRun, install.DryRunOption, install.ClientOnly, install.Replace = true, "client", true, true
	rel, err := install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values))
	if err != nil {
		return "", explain(req.Name, namespace, err, req.Chart.chart.Schema, req.Values)
	}

	var out strings.Builder
	out.WriteString(strings.TrimSpace(rel.Manifest) + "\n")
	for _, hook := range rel.Hooks {
		if !req.Tests && slices.Contains(hook.Events, release.HookTest) {
			continue // helm test runs it, not the installation
		}
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, strings.TrimSpace(hook.Manifest))
	}

	return out.String(), nil
}

// ParseValues parses values as helm's flags do: files (-f) first, then set
// (--set, with type detection), then setString (--set-string); later ones override earlier ones.
func ParseValues(files, set, setString []string) (map[string]any, error) {
	parsed, err := (&values.Options{ValueFiles: files, Values: set, StringValues: setString}).MergeValues(nil)
	if err != nil {
		return nil, fmt.Errorf("chart values: %w", err)
	}
	return parsed, nil
}

// MergeValues returns base with the values of over merged into it, mapping by mapping; neither is changed. A null
// in over is kept, so that it removes a chart's default as with helm.
func MergeValues(base, over map[string]any) map[string]any {
	return chartutil.MergeTables(copyValues(over), copyValues(base))
}

// Flat returns values by their full names, such as image.tag.
func Flat(values map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range values {
		section, nested := value.(map[string]any)
		if !nested {
			out[name] = value
		}
		for inner, value := range Flat(section) {
			out[name+"."+inner] = value
		}
	}
	return out
}

// Release is one revision of a release.
type Release struct {
	Name      string `json:"-"`
	Namespace string `json:"-"`
	// Revision starts at 1.
	Revision int `json:"revision"`
	// Status is Helm's status: deployed, failed, superseded, uninstalling, uninstalled, pending-install,
	// pending-upgrade, pending-rollback.
	Status       string `json:"status"`
	ChartVersion string `json:"chartVersion"`
	AppVersion   string `json:"appVersion"`
	// Manifest is the rendered YAML, without hooks.
	Manifest string `json:"-"`
	// Tests are the manifests of the chart's tests, which helm test runs.
	Tests []string `json:"-"`
	Notes string   `json:"-"`
	// Updated is when an action last wrote the revision.
	Updated time.Time `json:"-"`
	// Values are the user's values, without the chart's defaults, and the values that csccm chose.
	Values  map[string]any `json:"-"`
	Decided []string       `json:"-"`
	// NeverRan is set if csccm waited for the Pods and they never became ready.
	NeverRan bool `json:"-"`
}

// Worked reports whether the controller ran with this revision.
func (r *Release) Worked() bool {
	return !r.NeverRan && (r.Deployed() || r.Status == release.StatusSuperseded.String())
}

// Parts of a revision's description.
const (
	neverRan    = "its Pods did not come up; "
	decidedMark = "; by the cluster: "
)

func (r *ApplyRequest) description() string {
	if len(r.Decided) == 0 {
		return r.Description
	}
	return r.Description + decidedMark + strings.Join(r.Decided, ",")
}

// Deployed reports whether this revision is deployed.
func (r *Release) Deployed() bool { return r.Status == release.StatusDeployed.String() }

// releases converts Helm's revisions to ours.
func releases(stored []*release.Release) []Release {
	out := make([]Release, 0, len(stored))
	for _, rel := range stored {
		r := Release{
			Name: rel.Name, Namespace: rel.Namespace, Revision: rel.Version, Manifest: rel.Manifest, Values: rel.Config,
			Status: rel.Info.Status.String(), Notes: rel.Info.Notes, Updated: rel.Info.LastDeployed.Time,
			NeverRan: strings.HasPrefix(rel.Info.Description, neverRan),
		}
		if _, names, ok := strings.Cut(rel.Info.Description, decidedMark); ok {
			r.Decided = strings.Split(names, ",")
		}
		for _, hook := range rel.Hooks {
			if slices.Contains(hook.Events, release.HookTest) {
				r.Tests = append(r.Tests, hook.Manifest)
			}
		}
		if rel.Chart != nil && rel.Chart.Metadata != nil {
			r.ChartVersion, r.AppVersion = rel.Chart.Metadata.Version, rel.Chart.Metadata.AppVersion
		}
		out = append(out, r)
	}

	return out
}

// Values returns the values that the next upgrade starts from: those of the newest deployed revision, because the
// values of a revision that was never deployed may have caused its failure. It omits the values that csccm chose,
// because the cluster may have changed. history is that of the release, the newest first.
func Values(history []Release) map[string]any {
	r := Current(history)
	values := maps.Clone(r.Values)
	maps.DeleteFunc(values, func(name string, _ any) bool { return slices.Contains(r.Decided, name) })
	return values
}

// Current returns the newest deployed revision; an empty one if there is none.
func Current(history []Release) *Release {
	if i := slices.IndexFunc(history, func(r Release) bool { return r.Deployed() }); i >= 0 {
		return &history[i]
	}
	return &Release{}
}

// UpToDate reports whether applying the chart with these values would change nothing. manifest is the rendered chart.
func (r *Release) UpToDate(c *Chart, values map[string]any, manifest string) bool {
	return r.Deployed() && !r.NeverRan && r.ChartVersion == c.Version() && r.AppVersion == c.AppVersion() &&
		strings.HasPrefix(manifest, strings.TrimSpace(r.Manifest)) && sameValues(r.Values, values)
}

// sameValues compares values as JSON, because numbers in flags and in a stored release have different Go types.
func sameValues(a, b map[string]any) bool {
	was, err := json.Marshal(a)
	is, ierr := json.Marshal(b)
	return err == nil && ierr == nil && (len(a)+len(b) == 0 || bytes.Equal(was, is))
}

var (
	// guardText matches errors of the chart's templates. Helm has no types for these errors, only texts.
	guardText = regexp.MustCompile(`(?s)execution error at \([^)]*\): (.*)`)
	// groupText matches lines that only introduce more specific lines.
	groupText   = regexp.MustCompile(`^(validation failed|'[a-zA-Z]+' failed)$`)
	patternText = regexp.MustCompile(`^('.*') does not match pattern '.*'$`)
	schemaLine  = regexp.MustCompile(`^- at '([^']*)': (.*)$`)
)

// explain converts errors of Helm that users can resolve to errors with a remedy. schema is that of the chart's values,
// values are the given ones.
func explain(name, namespace string, err error, schema []byte, values map[string]any) error {
	text := err.Error()
	var problems []string
	if m := guardText.FindStringSubmatch(text); m != nil {
		problems = []string{strings.TrimPrefix(strings.TrimSpace(m[1]), "value ")}
	} else if strings.Contains(text, "values don't meet the specifications of the schema") {
		problems = schemaProblems(text, schema)
	}
	if len(problems) > 0 {
		return report.Usage(
			"correct the values; the chart's README.md and values.schema.json list them all",
			"chart values: %s", strings.Join(problems, "; "),
		)
	}

	// A null removes a default, and templates read most values without checking that they exist.
	var removed []string
	for value, is := range Flat(values) {
		if is == nil {
			removed = append(removed, value)
		}
	}

	slices.Sort(removed)
	if strings.Contains(text, "template: ") && len(removed) > 0 {
		return report.Usage(
			"leave them out to have the chart's defaults",
			"chart values: %s: got null, which the chart cannot render", strings.Join(removed, ", "),
		)
	}

	return fmt.Errorf("release %s in namespace %s: %w", name, namespace, err)
}

// schemaProblems converts Helm's list to lines such as "replicaCount: got string, want integer". It replaces a pattern
// by the title of the value in the schema, which describes the pattern in words.
func schemaProblems(text string, schema []byte) []string {
	var root map[string]any
	_ = json.Unmarshal(schema, &root) // without the schema, only the titles are missing
	var problems []string
	for line := range strings.Lines(text) {
		m := schemaLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || groupText.MatchString(m[2]) {
			continue
		}
		path, problem := strings.Trim(m[1], "/"), m[2]
		titleAt := "properties/" + strings.ReplaceAll(path, "/", "/properties/") + "/title"
		title, _, _ := unstructured.NestedString(root, strings.Split(titleAt, "/")...)
		if value := patternText.FindStringSubmatch(problem); value != nil && title != "" {
			problem = value[1] + " is not " + title
		}
		problems = append(problems, strings.TrimPrefix(strings.ReplaceAll(path, "/", ".")+": "+problem, ": "))
	}

	slices.Sort(problems) // the validator's order is random
	return problems
}
