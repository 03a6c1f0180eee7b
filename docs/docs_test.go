// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs contains the tests of the documentation.
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
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
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

// target resolves a link of a page to a path in the repository and an anchor. ok is false if the link leaves the
// repository.
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
			// Artifact Hub shows this README without the files beside it
			if p.Path == "charts/cloudstack-ccm/README.md" {
				require.Regexp(t, `^(https://|#)`, l)
			}
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

// TestEveryFileIsNamed: each file in docs/ is named on a page.
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

// Each `make X` on a page is a target of the Makefile, and each package in the Makefile's lists exists. Otherwise a
// missing package would be noticed only when somebody runs the target.
func TestMakefile(t *testing.T) {
	t.Parallel()
	root, all, _ := read(t)
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := map[string]bool{"TARGET": true}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(raw), -1) {
		targets[m[1]] = true
	}

	commands, err := pages.Commands(all, "make")
	require.NoError(t, err)
	require.Greater(t, len(commands), 10)
	for _, c := range commands {
		for _, arg := range c.Args[1:] {
			if !targets[arg] && !strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") {
				t.Errorf("%s: `%s`: the Makefile has no target %s", c.Page, c.Text, arg)
			}
		}
	}

	lists := regexp.MustCompile(`(?m)^(\w+) :=((?: \./[\w./-]+)+)$`).FindAllStringSubmatch(string(raw), -1)
	require.NotEmpty(t, lists)
	for _, list := range lists {
		for _, pkg := range strings.Fields(list[2]) {
			dir := strings.TrimSuffix(pkg, "/...")
			_, err := os.Stat(filepath.Join(root, dir))
			_, inTest := os.Stat(filepath.Join(root, "test", dir))
			require.False(t, err != nil && inTest != nil,
				"%s names %s, which is neither in the main module nor in test/", list[1], pkg)
		}
	}
}

// namedTest is a test or scenario that CONTRIBUTING.md names, with its folder.
var namedTest = regexp.MustCompile("`([^`]+)` \\(([a-z0-9/]+)\\)")

// Every row of the tables names tests, and each of them exists.
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
			require.True(t, hasTest(t, filepath.Join(root, filepath.FromSlash(m[2])), m[1]), "there is no %s in %s",
				m[1], m[2])
		}
	}

	require.Equal(t, 9+9+5, seen)
}

// All files name the same supported versions of Kubernetes.
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

// Only the Dockerfile names an external image, by its digest. It builds with the flags of a release.
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
	for _, both := range []string{"CGO_ENABLED=0", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false",
		"-s -w -buildid=", "version.Version=", "version.Commit=", "version.Date=", "65532:65532"} {
		require.True(t, bytes.Contains(raw, []byte(both)) && bytes.Contains(release, []byte(both)), "%s is not in both",
			both)
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
		if strings.Contains(string(text), "func "+name+"(t *testing.T)") ||
			strings.Contains("\n"+string(text), "\n== "+name+"\n") {
			return true
		}
	}
	return false
}

// servicesOf returns the Services of type LoadBalancer in a manifest, and those that the controllers of Gateway API
// create from its objects: they have all of csccm's annotations in such an object. A manifest with HTTP/3 in its name
// also has UDP on port 443.
func servicesOf(t *testing.T, name string, manifest []byte) (out []*corev1.Service) {
	t.Helper()
	var annotated func(v any)
	annotated = func(v any) {
		of, _ := v.(map[string]any)
		for key, value := range of {
			annotated(value)
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
			all, _ := value.(map[string]any)
			for k, v := range all {
				if key == "annotations" && strings.HasPrefix(k, annotation.Prefix) {
					svc.Annotations[k], _ = v.(string)
				}
			}
			svc.Spec.Type = corev1.ServiceTypeLoadBalancer
			svc.Spec.Ports = []corev1.ServicePort{
				{Port: 80, Protocol: corev1.ProtocolTCP},
				{Port: 443, Protocol: corev1.ProtocolTCP},
			}
			if strings.Contains(name, "http3") {
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP})
			}
			if len(svc.Annotations) > 0 {
				out = append(out, svc)
			}
		}
	}

	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, name)
		var object map[string]any
		require.NoError(t, yaml.Unmarshal(raw, &object), name)
		if object["kind"] != "Service" {
			annotated(object)
			continue
		}
		var svc corev1.Service
		require.NoError(t, yaml.UnmarshalStrict(raw, &svc), name)
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			out = append(out, &svc)
		}
	}
}

// serves checks without a cluster whether the controller would serve a Service.
func serves(t *testing.T, name string, svc *corev1.Service) {
	t.Helper()
	for key := range svc.Annotations {
		known := slices.ContainsFunc(annotation.Table(),
			func(d annotation.Definition) bool { return d.Name == key && d.Writer == annotation.ByUser })
		require.True(t, known || !strings.HasPrefix(key, annotation.Prefix), "%s: %s is no annotation that a user sets",
			name, key)
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

// playedElsewhere are the examples that are not in pkg/testenv/script/table/examples.txt: those of the real nodes, of
// the end-to-end script gitops, and two that need a certificate or a tier which the scenarios' world does not have.
var playedElsewhere = []string{"gateway-", "gitops-", "ingress-nginx", "traefik", "tls", "vpc-tier"}

// The controller would serve each Service in the examples and in the YAML of the pages.
func TestServicesAreValid(t *testing.T) {
	t.Parallel()
	gateways, err := filepath.Glob(filepath.Join("examples", "gateway-*", "*.yaml"))
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join("examples", "*", "manifest.yaml"))
	require.NoError(t, err)
	files := slices.Concat(gateways, folders)
	require.GreaterOrEqual(t, len(files), 18)
	played, err := os.ReadFile("../pkg/testenv/script/table/examples.txt")
	require.NoError(t, err)
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if !strings.Contains(string(played), name) &&
			!slices.ContainsFunc(playedElsewhere, func(e string) bool { return strings.HasPrefix(name, e) }) {
			t.Errorf("nothing plays the example %s", name)
		}
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		services := servicesOf(t, file, raw)
		require.True(t, len(services) > 0 || strings.Contains(file, "gitops-"),
			"%s shows no Service of type LoadBalancer", file)
		for _, svc := range services {
			serves(t, file, svc)
		}
	}

	_, all, _ := read(t)
	for _, p := range all {
		for _, c := range p.Code {
			if c.Language != "yaml" || !strings.Contains(c.Text, "\nkind: Service\n") {
				continue
			}
			for _, svc := range servicesOf(t, p.Path, []byte(c.Text)) {
				serves(t, p.Path, svc)
			}
		}
	}
}
