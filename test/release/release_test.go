// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/csccm/csccm/test/testenv"
)

const (
	candidate = "0.1.0-rc.1"
	final     = "0.1.0"
	name      = "cloudstack-ccm"
)

// A pre-release and its release are made and published on loopback, and then installed from both kinds of chart
// repository, upgraded and rolled back in a cluster. With -rehearse, goreleaser, ko, syft and cosign make them as
// release.yml does, and their signatures are verified; without, the images are of this test.
func TestReleaseIntoACluster(t *testing.T) {
	t.Parallel()
	if tools.skip != "" {
		t.Skip(tools.skip)
	}
	s := newSource(t)
	site := filepath.Join(s.work, "site")
	host := serve(t, site)
	s.env = append(s.env, "REGISTRY="+host+"/csccm", "SITE="+filepath.Join(site, "charts"), "PLAIN_HTTP=true")
	if *rehearse {
		s.keys()
	}
	digests := map[string]string{}
	for _, version := range []string{candidate, final} {
		s.write("CHANGELOG.md", []byte("# Changelog\n\n## ["+final+"]\n\n### Added\n\n- Everything, in "+version+".\n"))
		s.say("Release " + version + ".")
		s.tag(version)
		digests[version] = s.publish(host)
	}
	if digests[candidate] == digests[final] {
		t.Fatal("both releases have the same image")
	}
	if *rehearse {
		s.verify(host, digests[final])
		s.reproduce()
	}
	image := func(version string) string { return host + "/csccm/" + name + ":v" + version + "@" + digests[version] }

	e := newEnv(t, map[string]string{
		image(candidate): pull(t, image(candidate), runtime.GOARCH),
		image(final):     pull(t, image(final), runtime.GOARCH),
	})
	u := &user{t: t, env: e, home: t.TempDir(), host: host}
	u.text.WriteString(s.transcript())
	values := filepath.Join(u.home, "values.yaml")
	text := "# Process nodes have no network of their own.\nhostNetwork: false\nbindAddress: $(POD_IP)\nreplicaCount: 1\n" +
		"image: {repository: " + host + "/csccm/" + name + "}\n"
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u.copy(s.keyring, "chart.gpg")
	install := []string{"--namespace", "kube-system", "--values", "values.yaml", "--wait", "--timeout", "10m"}
	verified := append([]string{"--verify", "--keyring", "chart.gpg"}, install...)
	running := func(version string) { t.Helper(); e.runs(t, image(version)) }

	u.say("From the chart repository on the web server. Helm lists the pre-release only on request.")
	u.helm("repo", "add", "csccm", "http://"+host+"/charts")
	u.helm("search", "repo", "csccm", "--versions")
	u.helm("search", "repo", "csccm", "--versions", "--devel")
	u.say("Verified by the PGP key, and installed. The key of somebody else is refused.")
	_, stranger := pgp(t, t.TempDir(), "stranger")
	u.copy(stranger, "stranger.gpg")
	u.fails("openpgp: signature made by unknown entity", "install", name, "csccm/"+name, "--version", candidate, "--verify", "--keyring", "stranger.gpg", "--namespace", "kube-system")
	u.helm(append([]string{"install", name, "csccm/" + name, "--version", candidate}, verified...)...)
	running(candidate)
	e.initialized(t, "demo-cp-1", "demo-worker-1")
	u.say("The Pod runs the image of the release, by digest.")
	u.kubectl("-n", "kube-system", "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}")
	u.helm("test", name, "--namespace", "kube-system", "--logs")
	u.say("The release. --reuse-values keeps the values, but not the digest of the release before.")
	u.helm("upgrade", name, "csccm/"+name, "--version", final, "--verify", "--keyring", "chart.gpg", "--namespace", "kube-system", "--reuse-values", "--wait", "--timeout", "10m")
	running(final)
	u.say("And back.")
	u.helm("rollback", name, "--namespace", "kube-system", "--wait", "--timeout", "10m")
	running(candidate)
	u.helm("uninstall", name, "--namespace", "kube-system", "--wait")

	u.say("The same from the registry.")
	chart := "oci://" + host + "/csccm/charts/" + name
	u.helm(append([]string{"install", name, chart, "--version", candidate, "--plain-http"}, verified...)...)
	running(candidate)
	u.helm(append([]string{"upgrade", name, chart, "--version", final, "--plain-http"}, verified...)...)
	running(final)
	u.helm("rollback", name, "1", "--namespace", "kube-system", "--wait", "--timeout", "10m")
	running(candidate)

	u.say("csccm upgrades what helm installed, by Helm's library.")
	u.csccm("upgrade", "--chart", chart, "--version", final, "--yes")
	running(final)
	u.csccm("status")
	u.keep()
}

// publish makes and publishes the version that is tagged, and returns the digest of the controller's image.
func (s *source) publish(host string) string {
	s.t.Helper()
	if *rehearse {
		s.step("release/steps", "all")
		version := strings.TrimSpace(s.run(s.dir, "git", "describe", "--tags"))
		return strings.TrimSpace(s.step("crane", "digest", host+"/csccm/"+name+":"+version))
	}
	digest := pushProgram(s, host)
	s.env = append(s.env, "IMAGE_DIGEST="+digest, "UNSIGNED=true")
	s.step("release/steps", "package")
	s.step("release/steps", "publish")
	return digest
}

// pushProgram pushes the controller of the tree as an image of one layer and returns its digest.
func pushProgram(s *source, host string) string {
	s.t.Helper()
	version := strings.TrimSpace(s.run(s.dir, "git", "describe", "--tags"))
	program := filepath.Join(s.work, name)
	s.run(s.dir, "go", "build", "-buildvcs=false", "-ldflags", "-s -w -X github.com/csccm/csccm/pkg/version.Version="+version, "-o", program, "./cmd/"+name)
	text, err := os.ReadFile(program)
	if err != nil {
		s.t.Fatal(err)
	}
	var layer bytes.Buffer
	out := tar.NewWriter(&layer)
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := out.Write(text); err != nil {
		s.t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		s.t.Fatal(err)
	}
	packed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		s.t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, packed)
	if err != nil {
		s.t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		s.t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, v1.Config{Entrypoint: []string{"/" + name}}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		s.t.Fatal(err)
	}
	ref, err := imagename.ParseReference(host+"/csccm/"+name+":"+version, imagename.Insecure)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := remote.Write(ref, image, remote.WithContext(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		s.t.Fatal(err)
	}
	return digest.String()
}

// The steps refuse a release without a tag, without notes, or whose chart is published already.
func TestRefusedReleases(t *testing.T) {
	t.Parallel()
	if tools.skip != "" {
		t.Skip(tools.skip)
	}
	s := newSource(t)
	site := filepath.Join(s.work, "site")
	host := serve(t, site)
	s.env = append(s.env, "REGISTRY="+host+"/csccm", "SITE="+filepath.Join(site, "charts"), "UNSIGNED=true", "PLAIN_HTTP=true",
		"IMAGE_DIGEST=sha256:"+strings.Repeat("a", 64))
	steps := filepath.Join(s.dir, "release", "steps")
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := s.try(s.dir, steps, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: want an error with %q, got %v\n%s", args, want, err, out)
		}
	}
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "no tag")
	refused("No names found", "package")

	s.write("CHANGELOG.md", []byte("# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.0.9]\n\n- old\n"))
	s.tag(final)
	refused("CHANGELOG.md has no section ## [0.1.0]", "notes")
	s.tag(candidate)
	s.git("tag", "-d", "v"+final)
	if notes := strings.TrimSpace(s.run(s.dir, steps, "notes")); notes != "- new" {
		t.Errorf("notes of a pre-release: %q", notes)
	}

	s.run(s.dir, steps, "package")
	s.run(s.dir, steps, "publish")
	refused("a published version does not change", "publish")
	index, err := os.ReadFile(filepath.Join(site, "charts", "index.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(index, []byte(name+"-"+candidate+".tgz")) {
		t.Errorf("the index does not contain the chart:\n%s", index)
	}
}

// A chart in a private registry with its own CA: after one helm registry login, with the password from stdin, both helm
// and csccm can read it; without a login both fail.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	if tools.skip != "" {
		t.Skip(tools.skip)
	}
	s, p := newSource(t), newPrivate(t)
	s.env = append(s.env, "REGISTRY="+p.host+"/csccm", "SITE="+t.TempDir(), "UNSIGNED=true", "IMAGE_DIGEST=sha256:"+strings.Repeat("a", 64),
		"DOCKER_CONFIG="+p.docker, "SSL_CERT_FILE="+p.ca)
	s.tag(candidate)
	said := s.step("release/steps", "package") + s.step("release/steps", "publish")

	programs, err := testenv.Build(t.Context(), testenv.BuildOptions{Dir: os.Getenv("CSCCM_BIN_DIR"), LDFlags: os.Getenv("CSCCM_LDFLAGS")})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	run := func(stdin, program string, args ...string) (string, error) {
		out, err := p.run(t, home, stdin, program, args...)
		said += out
		return out, err
	}
	chart := "oci://" + p.host + "/csccm/charts/" + name
	commands := [][]string{
		{programs.CLI, "template", "--chart", chart, "--version", candidate, "--kube-version", "v1.37.1"},
		{tools.helm, "pull", chart, "--version", candidate, "--ca-file", p.ca, "--verify", "--keyring", s.keyring},
		{tools.helm, "template", name, chart, "--version", candidate, "--ca-file", p.ca, "--kube-version", "v1.37.1"},
	}
	for _, c := range commands {
		if out, err := run("", c[0], c[1:]...); err == nil || !noLogin.MatchString(out) {
			t.Errorf("without a login %v: %v\n%s", c, err, out)
		}
	}
	if out, err := run(password+"\n", tools.helm, "registry", "login", p.host, "--username", login, "--password-stdin", "--ca-file", p.ca); err != nil {
		t.Fatalf("login: %v\n%s", err, out)
	}
	for _, c := range commands {
		if out, err := run("", c[0], c[1:]...); err != nil {
			t.Errorf("%v: %v\n%s", c, err, out)
		}
	}
	if strings.Contains(said, password) {
		t.Error("the password is in the output")
	}
}
