// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	candidate = "0.1.0-rc.1"
	final     = "0.1.0"
	name      = "cloudstack-ccm"
)

// A pre-release and its release are made and published, and then verified, installed from both kinds of chart
// repository, upgraded and rolled back in a cluster.
func TestReleaseIntoACluster(t *testing.T) {
	t.Parallel()
	if tools.skip != "" {
		t.Skip(tools.skip)
	}
	s := newSource(t)
	site := filepath.Join(s.work, "site")
	host := serve(t, s, site)
	s.say("A pre-release: the tag, the record of the tests, the gate, and all of it into a registry and the folder of a web server. (The program true stands for the tests and for govulncheck.)")
	digests := map[string]string{
		candidate: s.publish(host, site, candidate),
	}
	s.write("CHANGELOG.md", []byte("# Changelog\n\n## [0.1.0] - 2026-11-21\n\n### Added\n\n- All of it.\n"))
	s.commit("release 0.1.0")
	s.say("The release, into the same places.")
	digests[final] = s.publish(host, site, final)
	if digests[candidate] == digests[final] {
		t.Fatal("both releases have the same image")
	}
	image := func(version string) string { return host + "/csccm/" + name + ":v" + version + "@" + digests[version] }

	e := newEnv(t, map[string]string{
		image(candidate): pull(t, image(candidate)),
		image(final):     pull(t, image(final)),
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
	u.copy(s.public, "cosign.pub")
	install := []string{"--namespace", "kube-system", "--values", "values.yaml", "--wait", "--timeout", "10m"}
	verified := append([]string{"--verify", "--keyring", "chart.gpg"}, install...)
	running := func(version string) { t.Helper(); e.runs(t, image(version)) }

	u.say("The user, of the chart repository on the web server: the pre-release is there for those who ask for it.")
	u.helm("repo", "add", "csccm", "http://"+host+"/charts")
	u.helm("search", "repo", "csccm", "--versions")
	u.helm("search", "repo", "csccm", "--versions", "--devel")
	u.say("Verified by the PGP key that was had by another way, and installed. A key of somebody else verifies nothing.")
	_, stranger := pgp(t, t.TempDir(), "stranger")
	u.copy(stranger, "stranger.gpg")
	u.fails("openpgp: signature made by unknown entity", "install", name, "csccm/"+name, "--version", candidate, "--verify", "--keyring", "stranger.gpg", "--namespace", "kube-system")
	u.helm(append([]string{"install", name, "csccm/" + name, "--version", candidate}, verified...)...)
	running(candidate)
	e.initialized(t, "demo-cp-1", "demo-worker-1")
	u.say("What runs is the image of the release, by digest.")
	u.kubectl("-n", "kube-system", "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}")
	u.say("The controller proves from inside that it has what it needs.")
	u.helm("test", name, "--namespace", "kube-system", "--logs")
	u.say("The release. --reuse-values keeps the values, and not the digest of the release before.")
	u.helm("upgrade", name, "csccm/"+name, "--version", final, "--verify", "--keyring", "chart.gpg", "--namespace", "kube-system", "--reuse-values", "--wait", "--timeout", "10m")
	running(final)
	u.say("And back.")
	u.helm("rollback", name, "--namespace", "kube-system", "--wait", "--timeout", "10m")
	running(candidate)
	u.helm("history", name, "--namespace", "kube-system")
	u.helm("uninstall", name, "--namespace", "kube-system", "--wait")

	u.say("The same from the registry: the chart's provenance is there too, and all of it has the cosign key's signature.")
	chart := "oci://" + host + "/csccm/charts/" + name
	u.csccm("verify", "image", "--public-key-file", "cosign.pub", "--plain-http", host+"/csccm/"+name+":v"+final)
	u.csccm("verify", "image", "--public-key-file", "cosign.pub", "--plain-http", chart+":"+final)
	u.helm(append([]string{"install", name, chart, "--version", candidate, "--plain-http"}, verified...)...)
	running(candidate)
	u.helm(append([]string{"upgrade", name, chart, "--version", final, "--plain-http"}, verified...)...)
	running(final)
	u.helm("rollback", name, "1", "--namespace", "kube-system", "--wait", "--timeout", "10m")
	running(candidate)

	u.say("Files for a machine without helm or a registry.")
	u.files(site, final)
	u.csccm("verify", "files", "--public-key-file", "cosign.pub", "SHA256SUMS", name+"_"+final+"_linux_"+runtime.GOARCH+".tar.gz")

	u.say("csccm upgrades what helm installed, by Helm's library.")
	u.csccm("upgrade", "--chart", chart, "--version", final, "--yes")
	running(final)
	u.csccm("status")
	u.keep()
}

// publish makes and publishes a version of the tree and returns the digest of the controller's image.
func (s *source) publish(host, site, version string) string {
	s.t.Helper()
	s.tag(version)
	s.release("test", "true") // instead of the tests of the tree, which run elsewhere
	dist := filepath.Join(s.work, "dist", version)
	s.release("make", "--key", s.key, "--pgp-keyring", s.secret, "--pgp-identity", identity, "--govulncheck", "true",
		"--only", name, "--platform", "linux/"+runtime.GOARCH, "--registry", host+"/csccm", "--output", dist)
	out := s.release("publish", "--dir", dist, "--key", s.key, "--registry", host+"/csccm", "--site", site, "--plain-http")
	_, digest, found := strings.Cut(out, "/"+name+":v"+version+"@")
	if !found {
		s.t.Fatalf("release publish prints no image with a digest:\n%s", out)
	}
	digest, _, _ = strings.Cut(digest, ",")
	return strings.TrimSpace(digest)
}

// files copies the files that a user downloads from the release page.
func (u *user) files(site, version string) {
	u.t.Helper()
	from := filepath.Join(site, "releases", "v"+version)
	for _, file := range []string{"SHA256SUMS", "SHA256SUMS.sigstore.json", "provenance.sigstore.json", name + "_" + version + "_linux_" + runtime.GOARCH + ".tar.gz"} {
		u.copy(filepath.Join(from, file), file)
	}
}
