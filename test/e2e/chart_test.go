// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
)

const (
	chartDir = "../../charts/cloudstack-ccm"
	// definitionsFile holds the kinds of the Prometheus operator, as its own module has them.
	definitionsFile = "../../charts/testdata/apischemas/prometheus-operator.yaml"
)

// shelf is an API server without nodes, on which charts are installed to see what it makes of their objects.
type shelf struct {
	*clusterEnv
	chart *helm.Chart
	helm  *helm.Client
	flags *genericclioptions.ConfigFlags

	mu       sync.Mutex
	warnings []string // of the API server
}

func (s *shelf) HandleWarningHeader(_ int, _, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, text)
}

// warned are the API server's warnings since the last call.
func (s *shelf) warned() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.warnings = s.warnings, nil
	return all
}

// testChart installs each value set of the chart's ci folder over the one before, and compares what the API server then has with
// what was rendered. No Pod runs.
func testChart(t *testing.T, e *clusterEnv) {
	s := newShelf(t, e)
	before, err := e.Objects(t.Context())
	require.NoError(t, err)
	t.Run("an unknown field is seen", func(t *testing.T) { //nolint:paralleltest // one release at a time
		s.apply(t, map[string]any{"hostAliases": []any{map[string]any{"ip": "10.0.0.1", "hostname": "a"}}})
		if got := s.warned(); len(got) != 1 || !strings.Contains(got[0], `unknown field "spec.template.spec.hostAliases[0].hostname"`) {
			t.Errorf("the API server warns of %q", got)
		}
		odd := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt}\nimmutabel: true\n"
		for manifest, want := range map[string]string{odd: `unknown field "immutabel"`, strings.Replace(odd, "tabel", "table", 1): "immutable"} {
			if err := asRendered(s.infos(t, manifest)[0]); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("compared: %v, want %q", err, want)
			}
		}
		s.warned()
	})
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d sets of values: %v", len(files), err)
	}
	var last *helm.Release
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), "-values.yaml"), func(t *testing.T) { //nolint:paralleltest // one release at a time
			values, err := helm.ParseValues([]string{file}, nil, nil)
			require.NoError(t, err)
			r := s.apply(t, values)
			infos := s.infos(t, r.Manifest)
			for _, info := range infos {
				require.NoError(t, asRendered(info), info)
			}
			for _, test := range r.Tests {
				for _, info := range s.infos(t, test) {
					if _, err := helper(info).Create(info.Namespace, true, info.Object); err != nil {
						t.Errorf("%s: %v", info, err)
					}
				}
			}
			if warnings := s.warned(); len(warnings) > 0 {
				t.Errorf("the API server warns: %q", warnings)
			}
			if last != nil {
				s.goes(t, last.Manifest, infos)
			}
			last = r
		})
	}
	if err := s.helm.Uninstall(t.Context(), release); err != nil || last == nil {
		t.Fatal(err)
	}
	s.goes(t, last.Manifest, nil)
	s.eventually(t, "nothing to be left", func(ctx context.Context) error {
		now, err := e.Objects(ctx)
		maps.DeleteFunc(now, func(name string, _ bool) bool { return before[name] })
		if len(now) > 0 {
			err = fmt.Errorf("left are %v", slices.Collect(maps.Keys(now)))
		}
		return err
	})
}

// newShelf makes what the sets of values expect: a namespace and the kinds of the Prometheus operator.
func newShelf(t *testing.T, e *clusterEnv) *shelf {
	t.Helper()
	namespaces := []string{"monitoring", metav1.NamespaceSystem}
	monitoring := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[0]}}
	if _, err := e.Client.CoreV1().Namespaces().Create(t.Context(), monitoring, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"create", "-f", definitionsFile}, {"wait", "--for=condition=Established", "--timeout=5m", "-f", definitionsFile}} {
		if out, err := e.kubectl(t.Context(), "", args...); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
	for _, name := range namespaces {
		e.eventually(t, "what the controller manager puts into namespace "+name, func(ctx context.Context) error {
			_, err := e.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			if err == nil {
				_, err = e.Client.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			}
			return err
		})
	}
	s := &shelf{clusterEnv: e, flags: cluster.NewFlags()}
	cache := filepath.Join(e.home, "cache-of-the-shelf")
	s.flags.KubeConfig, s.flags.CacheDir = &e.Kubeconfig, &cache
	tuned := s.flags.WrapConfigFn
	s.flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c = tuned(c)
		c.UserAgent = "csccm-test" // the audit takes requests by csccm's name for those of its commands
		c.WarningHandler = s
		return c
	}
	var err error
	s.chart, err = helm.Load(t.Context(), chartDir, "", false)
	require.NoError(t, err)
	s.helm = helm.New(s.flags, metav1.NamespaceSystem, func(format string, v ...any) {
		if text, ok := strings.CutPrefix(fmt.Sprintf(format, v...), "API server: "); ok {
			s.HandleWarningHeader(0, "", text)
		}
	})
	return s
}

// apply installs or upgrades, without a look at the objects.
func (s *shelf) apply(t *testing.T, values map[string]any) *helm.Release {
	t.Helper()
	r, err := s.helm.Apply(t.Context(), helm.ApplyRequest{Name: release, Chart: s.chart, Values: values})
	require.NoError(t, err)
	if !r.Deployed() {
		t.Fatalf("the release is %s", r.Status)
	}
	return r
}

// infos are the objects of a manifest.
func (s *shelf) infos(t *testing.T, manifest string) []*resource.Info {
	t.Helper()
	infos, err := resource.NewBuilder(s.flags).Unstructured().NamespaceParam(metav1.NamespaceSystem).DefaultNamespace().
		Stream(strings.NewReader(manifest), "chart").Flatten().Do().Infos()
	if err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	return infos
}

// helper asks the API server for a strict opinion of an object.
func helper(info *resource.Info) *resource.Helper {
	return resource.NewHelper(info.Client, info.Mapping).DryRun(true).WithFieldValidation(metav1.FieldValidationStrict)
}

// goes waits until the objects of a manifest that are not kept are gone.
func (s *shelf) goes(t *testing.T, manifest string, kept []*resource.Info) {
	t.Helper()
	for _, info := range s.infos(t, manifest) {
		if slices.ContainsFunc(kept, func(k *resource.Info) bool {
			return k.ObjectName() == info.ObjectName() && k.Namespace == info.Namespace
		}) {
			continue
		}
		s.eventually(t, info.String()+" to go", func(context.Context) error {
			_, err := helper(info).Get(info.Namespace, info.Name)
			return gone(err)
		})
	}
}

// asRendered asks the API server, which is to be strict about fields, what the object would be if it were replaced by
// the rendered one, and compares that with what it is.
func asRendered(info *resource.Info) error {
	for {
		live, err := helper(info).Get(info.Namespace, info.Name)
		if err != nil {
			return err
		}
		would, err := helper(info).Replace(info.Namespace, info.Name, true, info.Object.DeepCopyObject())
		if apierrors.IsConflict(err) {
			continue // a controller of Kubernetes wrote its status meanwhile
		}
		if err != nil {
			return err
		}
		if want, have := bare(would), bare(live); !reflect.DeepEqual(want, have) {
			return errors.New("it is not as rendered:\n" + diff.Diff(want, have))
		}
		return nil
	}
}

// bare is an object without what the API server, Helm and Kubernetes' controllers write.
func bare(o runtime.Object) map[string]any {
	u := o.(*unstructured.Unstructured).DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(u.Object, "status")
	u.SetLabels(without(u.GetLabels(), "app.kubernetes.io/managed-by"))
	u.SetAnnotations(without(u.GetAnnotations(), "meta.helm.sh/", "deployment.kubernetes.io/", "deprecated.daemonset."))
	return u.Object
}

func without(m map[string]string, prefixes ...string) map[string]string {
	maps.DeleteFunc(m, func(key, _ string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
	if len(m) == 0 {
		return nil // no map, not an empty one
	}
	return m
}
