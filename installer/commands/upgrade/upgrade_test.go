// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/stepclock"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
)

// bench is a release in a fake Helm and a Deployment that is ready, or not.
type bench struct {
	env     *engine.Env
	kube    *fake.Clientset
	out     bytes.Buffer
	err     bytes.Buffer
	history []helm.Release // newest first
	dir     string
	backups string
}

func newBench(t *testing.T, history ...helm.Release) *bench {
	t.Helper()
	b := &bench{history: history, dir: t.TempDir(), backups: filepath.Join(t.TempDir(), "new")}
	replicas := int32(1)
	b.kube = fake.NewClientset(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloudstack-cloud-controller-manager", Labels: map[string]string{
			"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "cloudstack-ccm",
		}},
		Spec:   appsv1.DeploymentSpec{Replicas: &replicas},
		Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	})
	clock := stepclock.New(nil)
	b.env = &engine.Env{
		Cluster: cluster.NewForTest(b.kube), Helm: b, Prompt: prompt.NewRefusing(), Clock: clock, Release: "cloudstack-ccm", Yes: true,
		Progress: report.NewProgress(&b.err, report.Style{}, clock), Out: &b.out, ErrOut: &b.err, Journal: filepath.Join(b.dir, "journal"),
	}
	return b
}

func (b *bench) Get(context.Context, string) (*helm.Release, error) {
	if len(b.history) == 0 {
		return nil, helm.ErrReleaseNotFound
	}
	r := b.history[0]
	return &r, nil
}

func (b *bench) History(context.Context, string) ([]helm.Release, error) { return b.history, nil }

func (b *bench) push(r helm.Release) *helm.Release {
	b.history[0].Status = "superseded"
	r.Revision, r.Status = b.history[0].Revision+1, "deployed"
	b.history = append([]helm.Release{r}, b.history...)
	return &b.history[0]
}

func (b *bench) Apply(ctx context.Context, r helm.ApplyRequest) (*helm.Release, error) {
	manifest, err := b.Template(ctx, r)
	return b.push(helm.Release{Name: r.Name, Namespace: "kube-system", ChartVersion: r.Chart.Version(), AppVersion: r.Chart.AppVersion(), Values: r.Values, Manifest: manifest}), err
}

func (b *bench) Rollback(_ context.Context, _ string, revision int) (*helm.Release, error) {
	for _, r := range b.history {
		if r.Revision == revision {
			return b.push(r), nil
		}
	}
	return nil, helm.ErrReleaseNotFound
}

func (b *bench) Uninstall(context.Context, string) error { return nil }

func (b *bench) Template(ctx context.Context, r helm.ApplyRequest) (string, error) {
	return helm.Template(ctx, "kube-system", helm.ApplyRequest{Name: r.Name, Chart: r.Chart, Values: r.Values, KubeVersion: "v1.37.1"})
}

func release(revision int, status, chart string, values map[string]any) helm.Release {
	return helm.Release{Name: "cloudstack-ccm", Namespace: "kube-system", Revision: revision, Status: status, ChartVersion: chart, AppVersion: "v" + chart, Values: values}
}

// chart is a small one of that version, with a list of renamed values.
func chart(t *testing.T, version, renamed string) *helm.Chart {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	annotations := ""
	if renamed != "" {
		annotations = "annotations:\n  csccm.io/renamed-values: |\n    " + strings.ReplaceAll(renamed, "\n", "\n    ") + "\n"
	}
	write("Chart.yaml", "apiVersion: v2\nname: cloudstack-ccm\nversion: "+version+"\nappVersion: v"+version+"\n"+annotations)
	write("values.yaml", "replicaCount: 2\n")
	write("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {replicas: \"{{ .Values.replicaCount }}\"}\n")
	c, err := helm.LoadContext(t.Context(), dir, "", false)
	require.NoError(t, err)
	return c
}

func (b *bench) upgrade(t *testing.T, o Options) error {
	t.Helper()
	o.BackupDir, o.KubeVersion = b.backups, "v1.37.1"
	return Upgrade(t.Context(), b.env, o)
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	b := newBench(t, release(3, "deployed", "1.0.0", map[string]any{"replicas": 5, "kept": true}))
	b.env.Yes, b.env.Interactive = false, true
	b.env.Prompt = prompt.NewLines(strings.NewReader("yes\n"), &b.err)
	b.env.Diff = func(_ context.Context, _, _, manifest string) ([]diff.Change, error) {
		return []diff.Change{{Kind: "ConfigMap", Name: "a", Action: diff.Update, Lines: []string{manifest[len(manifest)-4:]}}}, nil
	}
	require.NoError(t, b.upgrade(t, Options{Chart: chart(t, "1.1.0", "replicas: replicaCount\nold.one: new.two")}), b.err.String())
	require.Equal(t, map[string]any{"replicaCount": 5, "kept": true}, b.history[0].Values, "values stay, under their new names")
	for _, want := range []string{
		"upgrade release kube-system/cloudstack-ccm:", "from  revision 3, chart 1.0.0, controller v1.0.0", "to    chart 1.1.0, controller v1.1.0",
		"value replicas is now replicaCount", "change ConfigMap a",
	} {
		require.Contains(t, b.err.String(), want)
	}
	require.NotContains(t, b.err.String(), "old.one", "a rename that does not apply is not shown")
	require.Contains(t, b.out.String(), "revision 4 runs: chart 1.1.0, controller v1.1.0\n")
	require.Contains(t, b.out.String(), "csccm rollback 3\n")
	files, err := os.ReadDir(b.backups)
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(filepath.Join(b.backups, files[0].Name()))
	require.NoError(t, err)
	require.Contains(t, string(text), "replicas: 5")
	require.Contains(t, string(text), "revision: 3")

	// Again: nothing to do, nothing done, nothing asked.
	b.out.Reset()
	b.env.Output = "json"
	require.NoError(t, b.upgrade(t, Options{Chart: chart(t, "1.1.0", "")}))
	require.JSONEq(t, `{"schemaVersion":1,"action":"keep","release":"cloudstack-ccm","namespace":"kube-system","revision":4,"chart":"1.1.0","controller":"v1.1.0"}`, b.out.String())
	require.Len(t, b.history, 2)
}

func TestUpgradeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		history []helm.Release
		chart   string
		change  func(*bench)
		err     string
		fix     string
		code    int
	}{
		"a downgrade": {
			[]helm.Release{release(1, "deployed", "1.2.0-rc.1", nil)}, "1.1.9", nil, "chart 1.1.9 is older than 1.2.0-rc.1", "--allow-downgrade", 2,
		},
		"nothing installed": {nil, "1.0.0", nil, "there is no Helm release cloudstack-ccm in namespace kube-system", "csccm install", 2},
		"no terminal": {
			[]helm.Release{release(1, "deployed", "1.0.0", nil)}, "1.1.0", func(b *bench) { b.env.Yes = false }, "there is no terminal", "--yes", 2,
		},
		"the API server refuses": {
			[]helm.Release{release(1, "deployed", "1.0.0", nil)}, "1.1.0", func(b *bench) {
				b.env.Diff = func(context.Context, string, string, string) ([]diff.Change, error) {
					return []diff.Change{{Kind: "ConfigMap", Name: "a", Problem: "forbidden by policy"}}, nil
				}
			}, "nothing was changed: the API server refuses ConfigMap a: forbidden by policy", "policy", 3,
		},
		"no room for the backup": {
			[]helm.Release{release(1, "deployed", "1.0.0", nil)}, "1.1.0", func(b *bench) { b.backups = os.DevNull }, "nothing was changed: the backup", "--backup-dir", 1,
		},
		"no room for the journal": {
			[]helm.Release{release(1, "deployed", "1.0.0", nil)}, "1.1.0", func(b *bench) { b.env.Journal = "/dev/full" }, "nothing has been changed", "--journal", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.history...)
			if tc.change != nil {
				tc.change(b)
			}
			err := b.upgrade(t, Options{Chart: chart(t, tc.chart, "")})
			require.ErrorContains(t, err, tc.err)
			var r interface{ Remedy() string }
			require.ErrorAs(t, err, &r)
			require.Contains(t, r.Remedy(), tc.fix)
			var c interface{ ExitCode() int }
			if tc.code != 1 {
				require.ErrorAs(t, err, &c)
				require.Equal(t, tc.code, c.ExitCode())
			}
			require.Len(t, b.history, len(tc.history))
		})
	}
}

func TestDowngradeAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, release(1, "deployed", "1.2.0", nil))
	require.NoError(t, b.upgrade(t, Options{Chart: chart(t, "1.1.0", ""), AllowDowngrade: true, Values: map[string]any{"replicaCount": 1}}))
	require.Contains(t, b.out.String(), "revision 2 runs: chart 1.1.0")
}

// Pods that do not come up: the error names the way back.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, release(7, "deployed", "1.0.0", nil))
	d, err := b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloudstack-cloud-controller-manager", metav1.GetOptions{})
	require.NoError(t, err)
	d.Status.AvailableReplicas = 0
	_, err = b.kube.AppsV1().Deployments("kube-system").Update(t.Context(), d, metav1.UpdateOptions{})
	require.NoError(t, err)
	err = b.upgrade(t, Options{Chart: chart(t, "1.1.0", "")})
	var failed *report.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.Remedy(), "csccm rollback 7")
	var coder interface{ ExitCode() int }
	require.ErrorAs(t, err, &coder)
	require.Equal(t, report.ExitTimeout, coder.ExitCode())
}

func TestRollback(t *testing.T) {
	t.Parallel()
	history := []helm.Release{
		release(4, "deployed", "1.2.0", nil), release(3, "failed", "1.1.0", nil), release(2, "superseded", "1.0.1", nil), release(1, "superseded", "1.0.0", nil),
	}
	for name, tc := range map[string]struct {
		revision int
		want     string
		err      string
	}{
		"the newest that worked": {0, "1.0.1", ""},
		"a named one":            {1, "1.0.0", ""},
		"one that is not there":  {9, "", "there is no revision 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append([]helm.Release(nil), history...)...)
			err := Rollback(t.Context(), b.env, tc.revision)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				var r interface{ Remedy() string }
				require.ErrorAs(t, err, &r)
				require.Contains(t, r.Remedy(), "3 (failed, chart 1.1.0)")
				return
			}
			require.NoError(t, err, b.err.String())
			require.Equal(t, tc.want, b.history[0].ChartVersion)
			require.Contains(t, b.out.String(), "revision 5 runs: chart "+tc.want)
		})
	}
	b := newBench(t, release(1, "deployed", "1.0.0", nil))
	require.ErrorContains(t, Rollback(t.Context(), b.env, 0), "there is no earlier revision that worked")

	// The dry run changes nothing.
	b = newBench(t, history...)
	b.env.DryRun, b.env.Output = true, "yaml"
	require.NoError(t, Rollback(t.Context(), b.env, 0))
	require.Contains(t, b.out.String(), "action: rollback")
	require.Len(t, b.history, 4)
}

// A dry run shows what becomes different, also where the API server is not asked.
func TestRollbackShowsDifferences(t *testing.T) {
	t.Parallel()
	manifest := func(replicas, more string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ccm, namespace: kube-system}\nspec: {replicas: " + replicas + "}\n---\n" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + more + "}\n"
	}
	was, now := release(1, "superseded", "1.0.0", nil), release(2, "deployed", "1.1.0", nil)
	was.Manifest, now.Manifest = manifest("1", "old"), manifest("2", "new")
	b := newBench(t, now, was)
	b.env.DryRun = true
	require.NoError(t, Rollback(t.Context(), b.env, 0))
	require.Contains(t, b.out.String(), `  change Deployment kube-system/ccm
    spec.replicas: 2 -> 1
  create ConfigMap old
  delete ConfigMap new
`)
}
