// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
)

const (
	chartDir = "../../charts/cloudstack-ccm"
	// definitionsFile holds the kinds of the Prometheus operator, as its own module has them.
	definitionsFile = "../../charts/testdata/apischemas/prometheus-operator.yaml"
	// firstChart is the chart as it was first, by
	// git archive --prefix=cloudstack-ccm/ 7b1f6db:charts/cloudstack-ccm | gzip -9n
	firstChart = "testdata/chart-7b1f6db.tgz"
)

// shelf is an API server without nodes, on which charts are installed to see what it makes of their objects.
type shelf struct {
	*clusterEnv
	objects
	helm *helm.Client

	mu       sync.Mutex
	warnings []string
}

// testChart installs each value set of the chart's ci folder, also over the first chart and over another set, and
// compares what the API server then has with what was rendered. No Pod runs.
func testChart(t *testing.T, env *clusterEnv) {
	s := newShelf(t, env)
	s.prepare(t)
	before := s.inventory(t)
	today, first := load(t, chartDir), load(t, firstChart)
	sets := valueSets(t)
	names := slices.Sorted(maps.Keys(sets))

	t.Run("an unknown field is seen", func(t *testing.T) { //nolint:paralleltest // one release at a time
		s.apply(t, today, map[string]any{"extraObjects": []any{
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: odd}, immutabel: true}",
		}})
		if got := s.warned(); len(got) != 1 || !strings.Contains(got[0], `unknown field "immutabel"`) {
			t.Errorf("the API server warns of %q", got)
		}
		odd := documents(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: odd}, immutabel: true}")[0]
		if err := s.asRendered(t.Context(), odd); err == nil || !strings.Contains(err.Error(), `unknown field "immutabel"`) {
			t.Errorf("compared strictly: %v", err)
		}
		odd = documents(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: odd}, immutable: true}")[0]
		if err := s.asRendered(t.Context(), odd); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("an object that differs: %v", err)
		}
		s.uninstall(t, before)
	})
	known := 0
	for i, name := range names {
		next := names[(i+1)%len(names)]
		t.Run(name+", then "+next, func(t *testing.T) { //nolint:paralleltest // one release at a time
			r := s.install(t, today, sets[name])
			s.replaced(t, r, s.install(t, today, sets[next]))
			s.uninstall(t, before)
		})
		if _, err := helm.Template(t.Context(), metav1.NamespaceSystem, helm.ApplyRequest{
			Name: release, Chart: first, Values: sets[name], KubeVersion: "v1.37.1",
		}); err != nil {
			var unknown *helm.ValuesError
			if !errors.As(err, &unknown) {
				t.Errorf("the first chart with %s: %v", name, err)
			}
			continue // it has values that the first chart did not have
		}
		known++
		t.Run(name+" over the first chart", func(t *testing.T) { //nolint:paralleltest // one release at a time
			r := s.apply(t, first, sets[name])
			s.replaced(t, r, s.install(t, today, nil))
			s.uninstall(t, before)
		})
	}
	if known < 5 {
		t.Errorf("the first chart knows the values of %d sets, want 5 or more", known)
	}
	t.Logf("%d sets installed, each upgraded to another; %d of them over the first chart too", len(names), known)
}

// valueSets are the values of the chart's ci folder by their name.
func valueSets(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d sets of values: %v", len(files), err)
	}
	sets := map[string]map[string]any{}
	for _, file := range files {
		values, err := helm.ParseValues([]string{file}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		sets[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = values
	}
	return sets
}

func load(t *testing.T, path string) *helm.Chart {
	t.Helper()
	c, err := helm.Load(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newShelf(t *testing.T, env *clusterEnv) *shelf {
	t.Helper()
	s := &shelf{clusterEnv: env, objects: newObjects(t, env.REST)}
	flags, cache := cluster.NewFlags(), filepath.Join(env.home, "cache-of-the-shelf")
	flags.KubeConfig, flags.CacheDir = &env.Kubeconfig, &cache
	// The audit takes requests by csccm's name for those of its commands.
	tuned := flags.WrapConfigFn
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c = tuned(c)
		c.UserAgent = env.REST.UserAgent
		return c
	}
	var err error
	s.helm, err = helm.New(flags, metav1.NamespaceSystem, func(format string, v ...any) {
		if text, ok := strings.CutPrefix(fmt.Sprintf(format, v...), "API server: "); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.warnings = append(s.warnings, text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// warned are the API server's warnings since the last call.
func (s *shelf) warned() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.warnings
	s.warnings = nil
	return all
}

// prepare makes what the sets of values expect: namespaces, and the kinds of the Prometheus operator.
func (s *shelf) prepare(t *testing.T) {
	t.Helper()
	for _, name := range []string{"monitoring", "cloud"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.Client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(definitionsFile)
	if err != nil {
		t.Fatal(err)
	}
	definitions := documents(t, string(raw))
	for _, d := range definitions {
		s.create(t, d)
	}
	for _, d := range definitions {
		s.eventually(t, d.GetName()+" to be served", func(ctx context.Context) error { return s.established(ctx, d) })
	}
	// What the controller manager puts into each namespace.
	for _, name := range []string{"monitoring", "cloud", metav1.NamespaceSystem} {
		s.eventually(t, "namespace "+name, func(ctx context.Context) error {
			_, err := s.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			if err == nil {
				_, err = s.Client.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			}
			return err
		})
	}
	s.forget()
}

// apply installs or upgrades, without a look at the objects.
func (s *shelf) apply(t *testing.T, chart *helm.Chart, over map[string]any) *helm.Release {
	t.Helper()
	r, err := s.helm.Apply(t.Context(), helm.ApplyRequest{Name: release, Chart: chart, Values: over, ResetValues: over != nil})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Deployed() {
		t.Fatalf("the release is %s", r.Status)
	}
	return r
}

// install is apply, after which each object is as it was rendered and the API server has warned of nothing. Without
// values those of the release stay.
func (s *shelf) install(t *testing.T, chart *helm.Chart, over map[string]any) *helm.Release {
	t.Helper()
	r := s.apply(t, chart, over)
	for _, d := range documents(t, r.Manifest) {
		if err := s.asRendered(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	for _, test := range r.Tests {
		for _, d := range documents(t, test) {
			if err := s.wouldCreate(t.Context(), d); err != nil {
				t.Error(err)
			}
		}
	}
	if warnings := append(s.warned(), s.said()...); len(warnings) > 0 {
		t.Errorf("the API server warns: %q", warnings)
	}
	return r
}

// replaced waits until the objects that only the older revision has are gone.
func (s *shelf) replaced(t *testing.T, old, now *helm.Release) {
	t.Helper()
	kept := map[string]bool{}
	for _, d := range documents(t, now.Manifest) {
		kept[title(d)] = true
	}
	for _, d := range documents(t, old.Manifest) {
		if !kept[title(d)] {
			s.eventually(t, title(d)+" to go", func(ctx context.Context) error { return s.gone(ctx, d) })
		}
	}
}

// uninstall leaves nothing behind.
func (s *shelf) uninstall(t *testing.T, before map[string]bool) {
	t.Helper()
	if err := s.helm.Uninstall(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "nothing to be left", func(context.Context) error {
		var left []string
		for name := range s.inventory(t) {
			if !before[name] {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
	s.warned()
}
