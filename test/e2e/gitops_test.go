// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/version"
	"github.com/csccm/csccm/test/plane"
)

// definitionsDir holds the kinds of Flux and Argo CD, as their own modules have them.
const definitionsDir = "../../charts/testdata/apischemas"

// installed is what an example gives to Helm.
type installed struct {
	name, namespace, chart, version string
	values                          map[string]any
}

// judge compares what an example installs with what is published, and renders the chart with its values.
func (i installed) judge(t *testing.T) {
	t.Helper()
	if i.name != charts.Name || i.namespace != metav1.NamespaceSystem || i.chart != "oci://"+version.Registry+"/charts/"+charts.Name {
		t.Errorf("it installs %s as %s in namespace %s", i.chart, i.name, i.namespace)
	}
	chart := applyRequest(t, nil).Chart
	if i.version != "" { // the newest
		constraint, err := semver.NewConstraint(i.version)
		if err != nil {
			t.Fatal(err)
		}
		if !constraint.Check(semver.MustParse(chart.Version())) {
			t.Errorf("it wants version %s, the chart here has %s", i.version, chart.Version())
		}
	}
	if len(i.values) == 0 {
		t.Error("it sets no values")
	}
	_, err := helm.Template(t.Context(), i.namespace, helm.ApplyRequest{Name: i.name, Chart: chart, KubeVersion: "v1.37.1", Values: i.values})
	if err != nil {
		t.Error(err)
	}
}

// newAPI returns an API server alone, with the kinds of these files of charts/testdata/apischemas and with namespaces.
func newAPI(t *testing.T, kinds, namespaces []string) *env {
	t.Helper()
	e := &env{Plane: borrow(t, plane.Options{APIOnly: true}), home: t.TempDir()}
	for _, kind := range kinds {
		file := filepath.Join(definitionsDir, kind+".yaml")
		if out, err := e.applyStrictly(t, "", "-f", file); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := e.kubectl(t.Context(), "", "wait", "--for=condition=Established", "--timeout=5m", "-f", file); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, namespace := range namespaces {
		if out, err := e.kubectl(t.Context(), "", "create", "namespace", namespace); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return e
}

// applyStrictly applies objects, of which no field may be unknown.
func (e *env) applyStrictly(t *testing.T, manifest string, args ...string) (string, error) {
	t.Helper()
	return e.kubectl(t.Context(), manifest, append([]string{"apply", "--server-side", "--validate=strict"}, args...)...)
}

// TestGitOpsExamples applies the objects of Flux and Argo CD to an API server that has their kinds.
func TestGitOpsExamples(t *testing.T) {
	t.Parallel()
	e := newAPI(t, []string{"argo-cd", "flux-source", "flux-helm"}, []string{"argocd", "flux-system"})
	for _, tc := range []struct {
		folder, wrong string // wrong is a field that the kind does not have, for the test itself
		objects       int
		read          func(t *testing.T, documents []string) installed
	}{
		{"gitops-argo-cd", "destination:", 1, readApplication},
		{"gitops-flux", "targetNamespace:", 2, readHelmRelease},
	} {
		raw, err := os.ReadFile(filepath.Join(examplesDir, tc.folder, "manifest.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		manifest := string(raw)
		if out, err := e.applyStrictly(t, strings.Replace(manifest, tc.wrong, "un"+tc.wrong, 1), "--dry-run=server", "-f", "-"); err == nil {
			t.Errorf("%s: a field that does not exist is not refused: %s", tc.folder, out)
		}
		out, err := e.applyStrictly(t, manifest, "-f", "-")
		if err != nil || strings.Count(out, " serverside-applied\n") != tc.objects || strings.Contains(out, "Warning") {
			t.Errorf("%s: %v\n%s", tc.folder, err, out)
		}
		tc.read(t, strings.Split(manifest, "\n---\n")).judge(t)
	}
}

// TestGatewayExamples applies the examples of Gateway API, one after the other, to an API server that has the kinds of Gateway API and of
// Envoy Gateway. The tests of docs/ judge the Service that is made of them.
func TestGatewayExamples(t *testing.T) {
	t.Parallel()
	e := newAPI(t, []string{"gateway-api", "envoy-gateway"}, []string{"envoy-gateway-system"})
	files, err := filepath.Glob(examplesDir + "/gateway-*/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		manifest := string(raw)
		if out, err := e.applyStrictly(t, strings.Replace(manifest, "hostnames:", "unhostnames:", 1), "--dry-run=server", "-f", "-"); err == nil {
			t.Errorf("%s: a field that does not exist is not refused: %s", file, out)
		}
		out, err := e.applyStrictly(t, manifest, "-f", "-")
		if objects := strings.Count(manifest, "\nkind: "); err != nil || strings.Count(out, " serverside-applied\n") != objects || strings.Contains(out, "Warning") {
			t.Errorf("%s, with %d objects: %v\n%s", file, objects, err, out)
		}
	}
}

func readApplication(t *testing.T, documents []string) installed {
	t.Helper()
	var a struct {
		Spec struct {
			Destination struct{ Namespace string }
			Source      struct {
				RepoURL, Chart, TargetRevision string
				Helm                           struct {
					ReleaseName  string
					ValuesObject map[string]any
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(documents[0]), &a); err != nil {
		t.Fatal(err)
	}
	s := a.Spec.Source
	return installed{s.Helm.ReleaseName, a.Spec.Destination.Namespace, "oci://" + s.RepoURL + "/" + s.Chart, s.TargetRevision, s.Helm.ValuesObject}
}

func readHelmRelease(t *testing.T, documents []string) installed {
	t.Helper()
	var repository struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			URL string
			Ref struct{ Semver string }
		}
	}
	var r struct {
		Metadata struct{ Namespace string }
		Spec     struct {
			ReleaseName, TargetNamespace, StorageNamespace string
			ChartRef                                       struct{ Kind, Name string }
			Values                                         map[string]any
		}
	}
	for i, into := range []any{&repository, &r} {
		if err := yaml.Unmarshal([]byte(documents[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	if r.Spec.ChartRef.Kind != "OCIRepository" || r.Spec.ChartRef.Name != repository.Metadata.Name || r.Metadata.Namespace != repository.Metadata.Namespace {
		t.Errorf("the HelmRelease takes its chart from %v", r.Spec.ChartRef)
	}
	if r.Spec.StorageNamespace != r.Spec.TargetNamespace { // csccm reads the release where its objects are
		t.Errorf("the release is kept in namespace %s", r.Spec.StorageNamespace)
	}
	return installed{r.Spec.ReleaseName, r.Spec.TargetNamespace, repository.Spec.URL, repository.Spec.Ref.Semver, r.Spec.Values}
}

// TestTerraformExample evaluates the helm_release with the defaults of its variables.
func TestTerraformExample(t *testing.T) {
	t.Parallel()
	if programs.skip != "" {
		t.Skip(programs.skip)
	}
	dir := filepath.Join(examplesDir, "terraform")
	file, diagnostics := hclparse.NewParser().ParseHCLFile(filepath.Join(dir, "main.tf"))
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	text := &function.Spec{
		Params: []function.Parameter{{Type: cty.String}}, Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			raw, err := os.ReadFile(args[0].AsString())
			return cty.StringVal(string(raw)), err
		},
	}
	scope := &hcl.EvalContext{Functions: map[string]function.Function{"file": function.New(text)}, Variables: map[string]cty.Value{
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(dir)}),
	}}
	variables, found := map[string]cty.Value{}, installed{}
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		switch {
		case block.Type == "variable":
			value, diagnostics := block.Body.Attributes["default"].Expr.Value(nil)
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			variables[block.Labels[0]] = value
			scope.Variables["var"] = cty.ObjectVal(variables)
		case block.Type == "resource" && block.Labels[0] == "helm_release":
			found = helmRelease(t, block.Body, scope)
		}
	}
	found.judge(t)
}

// helmRelease evaluates the arguments of a helm_release, and refuses those that the provider does not have.
func helmRelease(t *testing.T, body *hclsyntax.Body, scope *hcl.EvalContext) (out installed) {
	t.Helper()
	var repository string
	for name, attribute := range body.Attributes {
		value, diagnostics := attribute.Expr.Value(scope)
		if diagnostics.HasErrors() {
			t.Fatal(diagnostics)
		}
		switch name {
		case "name":
			out.name = value.AsString()
		case "namespace":
			out.namespace = value.AsString()
		case "repository":
			repository = value.AsString()
		case "chart":
			out.chart = value.AsString()
		case "version":
			if !value.IsNull() {
				out.version = value.AsString()
			}
		case "values":
			for _, v := range value.AsValueSlice() {
				if err := yaml.UnmarshalStrict([]byte(v.AsString()), &out.values); err != nil {
					t.Fatal(err)
				}
			}
		case "wait":
		default:
			t.Errorf("is %s an argument of helm_release? Add it here if it is", name)
		}
	}
	out.chart = repository + "/" + out.chart
	return out
}
