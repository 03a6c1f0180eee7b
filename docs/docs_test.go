// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the tests of the documentation.
package docs

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/version"
)

func read(t *testing.T) (root string, all []pages.Page, byPath map[string]pages.Page) {
	t.Helper()
	root, err := pages.Root()
	require.NoError(t, err)
	all, err = pages.ReadAll(root)
	require.NoError(t, err)
	require.Greater(t, len(all), 15)
	byPath = map[string]pages.Page{}
	for _, p := range all {
		byPath[p.Path] = p
	}
	return root, all, byPath
}

// target resolves a link of a page to a path of the repository and an anchor; ok is false for what leads elsewhere.
func target(from, link string) (to, anchor string, ok bool) {
	if rest, own := strings.CutPrefix(link, version.Pages); own {
		from, link = "README.md", rest
	}
	u, err := url.Parse(link)
	if err != nil || u.IsAbs() || u.Host != "" {
		return "", "", false
	}
	if u.Path == "" {
		return from, u.Fragment, true
	}
	return path.Join(path.Dir(from), u.Path), u.Fragment, true
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	root, all, byPath := read(t)
	seen := 0
	for _, p := range all {
		for _, l := range p.Links {
			to, anchor, ok := target(p.Path, l)
			if !ok {
				continue
			}
			seen++
			if strings.HasPrefix(to, "../") {
				t.Errorf("%s: the link to %q leads out of the repository", p.Path, l)
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: the link to %q is dead: there is no %s", p.Path, l, to)
				continue
			}
			if page, markdown := byPath[to]; anchor != "" && markdown && !page.Anchors[anchor] {
				t.Errorf("%s: the link to %q is dead: %s has no heading %q", p.Path, l, to, anchor)
			}
		}
	}
	require.Greater(t, seen, 50)
}

// TestEveryPageIsTwoClicksAway: from the README every Markdown file is reached with two
// links at most.
func TestEveryPageIsTwoClicksAway(t *testing.T) {
	t.Parallel()
	_, all, byPath := read(t)
	for _, start := range []string{"README.md"} {
		reached := clicks(byPath, start, 2)
		for _, p := range all {
			if !reached[p.Path] {
				t.Errorf("%s is further than two clicks from %s: name it there", p.Path, start)
			}
		}
	}
}

// clicks are the files that are reached from a page with so many links.
func clicks(byPath map[string]pages.Page, start string, depth int) map[string]bool {
	reached, edge := map[string]bool{start: true}, []string{start}
	for ; depth > 0; depth-- {
		var next []string
		for _, from := range edge {
			for _, l := range byPath[from].Links {
				to, _, ok := target(from, l)
				if _, folder := byPath[to+"/README.md"]; folder {
					to += "/README.md"
				}
				if ok && !reached[to] {
					reached[to] = true
					next = append(next, to)
				}
			}
		}
		edge = next
	}
	return reached
}

// TestEveryFileIsNamed: nothing lies in docs/ that no page speaks of.
func TestEveryFileIsNamed(t *testing.T) {
	t.Parallel()
	root, all, _ := read(t)
	named := map[string]bool{}
	for _, p := range all {
		for _, l := range p.Links {
			if to, _, ok := target(p.Path, l); ok {
				named[to] = true
			}
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) == ".go" {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); !named[rel] {
			t.Errorf("%s is named by no page", rel)
		}
		return nil
	})
	require.NoError(t, err)
}

// TestMakeTargets: `make X` in the text and in blocks is a target of the Makefile.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	root, all, _ := read(t)
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(raw), -1) {
		targets[m[1]] = true
	}
	commands, err := pages.Commands(all, "make")
	require.NoError(t, err)
	require.Greater(t, len(commands), 10)
	for _, c := range commands {
		for _, arg := range c.Args[1:] {
			if arg == "TARGET" || strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") {
				continue
			}
			if !targets[arg] {
				t.Errorf("%s: `%s`: the Makefile has no target %s", c.Page, c.Text, arg)
			}
		}
	}
}

// namedTest is a test or scenario as CONTRIBUTING.md names it: its function or title, and its folder.
var namedTest = regexp.MustCompile("`([^`]+)` \\(([a-z0-9/]+)\\)")

// TestMakefilePackages holds the Makefile's lists of packages against the folders: a list that names a package that is gone fails
// only where somebody runs its target.
func TestMakefilePackages(t *testing.T) {
	root, err := pages.Root()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	lists := regexp.MustCompile(`(?m)^(\w+) :=((?: \./[\w./-]+)+)$`).FindAllStringSubmatch(string(raw), -1)
	require.NotEmpty(t, lists)
	for _, list := range lists {
		for _, pkg := range strings.Fields(list[2]) {
			dir := strings.TrimSuffix(pkg, "/...")
			if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, "test", dir)); err != nil {
				t.Errorf("%s names %s, which is neither in the main module nor in test/", list[1], pkg)
			}
		}
	}
}

// Every row of the tables has tests, and every test that is named exists.
func TestPromisesHaveTheirTests(t *testing.T) {
	t.Parallel()
	root, _, _ := read(t)
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md")) // #nosec G304 -- a file of the repository
	require.NoError(t, err)
	seen, inTable := 0, false
	for line := range strings.Lines(string(text)) {
		inTable = strings.HasPrefix(line, "|") && (inTable || strings.Contains(line, "| tests |"))
		if !inTable || !strings.HasPrefix(line, "| ") || strings.Contains(line, "| tests |") {
			continue
		}
		seen++
		tests := namedTest.FindAllStringSubmatch(line, -1)
		require.NotEmpty(t, tests, "a row without a test: %s", line)
		for _, m := range tests {
			require.True(t, hasTest(t, filepath.Join(root, filepath.FromSlash(m[2])), m[1]), "there is no %s in %s", m[1], m[2])
		}
	}
	require.Equal(t, 9+9+5, seen)
}

// All files that name the supported versions of Kubernetes agree.
func TestVersionsOfKubernetes(t *testing.T) {
	t.Parallel()
	root, _, _ := read(t)
	file := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(root, name)) // #nosec G304 -- a file of the repository
		require.NoError(t, err)
		return string(raw)
	}
	minimum := regexp.MustCompile(`(?m)^kubeVersion: ">=(1\.\d+)\.0-0"$`).FindStringSubmatch(file("charts/cloudstack-ccm/Chart.yaml"))
	built := regexp.MustCompile(`(?m)^\tk8s\.io/client-go v0\.(\d+)\.`).FindStringSubmatch(file("go.mod"))
	require.NotNil(t, minimum)
	require.NotNil(t, built)
	policy := file("docs/support-policy.md")
	require.Contains(t, policy, "| the chart installs | "+minimum[1]+" or newer |")
	require.Contains(t, policy, "| libraries | 1."+built[1]+" |")
	require.Contains(t, file("README.md"), "Kubernetes "+minimum[1]+" or newer")
}

// Only the Dockerfile names an image from elsewhere, by its digest. It builds as a release does.
func TestDockerfileIsPinned(t *testing.T) {
	t.Parallel()
	root, _, _ := read(t)
	raw, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	outside := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+[:@/]\S+)`).FindAllStringSubmatch(string(raw), -1)
	require.Len(t, outside, 1)
	require.Regexp(t, `^golang:1\.\d+\.\d+@sha256:[0-9a-f]{64}$`, outside[0][1])
	release, err := os.ReadFile(filepath.Join(root, "release", "goreleaser.yaml"))
	require.NoError(t, err)
	for _, both := range []string{"CGO_ENABLED=0", "-trimpath", "-buildvcs=false", "-s -w -buildid=", "version.Version=", "version.Commit=", "version.Date=", "65532:65532"} {
		require.True(t, bytes.Contains(raw, []byte(both)) && bytes.Contains(release, []byte(both)), "%s is not in both", both)
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	scenarios, err := filepath.Glob(filepath.Join(dir, "table", "*.txt"))
	require.NoError(t, err)
	for _, f := range append(files, scenarios...) {
		text, err := os.ReadFile(f) // #nosec G304 -- a source of this repository
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+name+"(t *testing.T)") || strings.Contains("\n"+string(text), "\n== "+name+"\n") {
			return true
		}
	}
	return false
}

// decode reads each document of a manifest as the type that it names, and refuses fields that the type lacks.
func decode(t *testing.T, name string, r io.Reader) []runtime.Object {
	t.Helper()
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	var out []runtime.Object
	for {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, name)
		if gateway.Match(raw) {
			out = append(append(out, envoyService(t, name, raw)...), ciliumService(t, name, raw)...)
			continue
		}
		object, _, err := strict.Decode(raw, nil, nil)
		require.NoError(t, err, "%s, document %d", name, len(out)+1)
		out = append(out, object)
	}
}

// gateway matches objects of Gateway API and Envoy Gateway, whose types are not Kubernetes' own.
var gateway = regexp.MustCompile(`(?m)^apiVersion: gateway\.(networking\.k8s|envoyproxy)\.io/`)

// envoyService returns the Service that Envoy Gateway makes for an EnvoyProxy. Examples of HTTP/3, which their names say, also
// have UDP on port 443.
func envoyService(t *testing.T, name string, raw []byte) []runtime.Object {
	t.Helper()
	var proxy struct {
		Kind string `json:"kind"`
		Spec struct {
			Provider struct {
				Kubernetes struct {
					EnvoyService struct {
						Type        corev1.ServiceType                  `json:"type"`
						Policy      corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy"`
						Annotations map[string]string                   `json:"annotations"`
					} `json:"envoyService"`
				} `json:"kubernetes"`
			} `json:"provider"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &proxy), name)
	if proxy.Kind != "EnvoyProxy" {
		return nil
	}
	from := proxy.Spec.Provider.Kubernetes.EnvoyService
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "envoy", Annotations: from.Annotations}}
	svc.Spec.Type, svc.Spec.ExternalTrafficPolicy = from.Type, from.Policy
	svc.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP},
		{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP},
	}
	if strings.Contains(name, "http3") {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "http3", Port: 443, Protocol: corev1.ProtocolUDP})
	}
	return []runtime.Object{svc}
}

// ciliumService returns the Service that Cilium makes for a Gateway of its class.
func ciliumService(t *testing.T, name string, raw []byte) []runtime.Object {
	t.Helper()
	var g struct {
		Kind string `json:"kind"`
		Spec struct {
			Class          string `json:"gatewayClassName"`
			Infrastructure struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"infrastructure"`
			Listeners []struct {
				Name string `json:"name"`
				Port int32  `json:"port"`
			} `json:"listeners"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &g), name)
	if g.Kind != "Gateway" || g.Spec.Class != "cilium" {
		return nil
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "cilium-gateway", Annotations: g.Spec.Infrastructure.Annotations}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, l := range g.Spec.Listeners {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: l.Name, Port: l.Port, Protocol: corev1.ProtocolTCP})
	}
	return []runtime.Object{svc}
}

// serves checks a Service as the controller would, without a cluster.
func serves(t *testing.T, name string, svc *corev1.Service) {
	t.Helper()
	for key := range svc.Annotations {
		if !strings.HasPrefix(key, annotation.Prefix) {
			continue
		}
		known := false
		for _, d := range annotation.Table() {
			known = known || d.Name == key && d.Writer == annotation.ByUser
		}
		require.True(t, known, "%s: %s is no annotation that a user sets", name, key)
	}
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].NodePort = int32(30000 + i) // as the API server gives them
	}
	spec, err := annotation.Parse(svc)
	require.NoError(t, err, name)
	if refusal := plan.CheckService(loadbalancer.ServiceOf(svc), spec); refusal != nil {
		t.Errorf("%s: Service %s is refused: %v", name, svc.Name, refusal)
	}
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	gateways, err := filepath.Glob(filepath.Join("examples", "gateway-*", "*.yaml"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(gateways), 5)
	folders, err := filepath.Glob(filepath.Join("examples", "*", "manifest.yaml"))
	require.NoError(t, err)
	files := slices.Concat(gateways, folders)
	require.GreaterOrEqual(t, len(files), 18)
	for _, file := range files {
		if strings.HasPrefix(file, filepath.Join("examples", "gitops-")) {
			continue // the system tests apply them
		}
		f, err := os.Open(file)
		require.NoError(t, err)
		balanced := 0
		for _, object := range decode(t, file, f) {
			if svc, ok := object.(*corev1.Service); ok && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
				serves(t, file, svc)
				balanced++
			}
		}
		require.NoError(t, f.Close())
		require.Positive(t, balanced, "%s shows no Service of type LoadBalancer", file)
	}
}

// TestServicesOfThePages: a Service in a page's YAML is as valid as an example.
func TestServicesOfThePages(t *testing.T) {
	t.Parallel()
	_, all, _ := read(t)
	for _, p := range all {
		for _, c := range p.Code {
			if c.Language != "yaml" || !strings.Contains(c.Text, "\nkind: Service\n") {
				continue
			}
			for _, object := range decode(t, p.Path, strings.NewReader(c.Text)) {
				if svc, ok := object.(*corev1.Service); ok {
					serves(t, p.Path, svc)
				}
			}
		}
	}
}
