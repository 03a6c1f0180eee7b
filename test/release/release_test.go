// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release tests a release from the source tree to a running cluster: release/steps makes and publishes it, a
// server on loopback serves it, and the real helm verifies, installs, upgrades and rolls it back.
package release

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	candidate = "0.1.0-rc.1"
	final     = "0.1.0"
	name      = "cloudstack-ccm"
)

// rehearse needs goreleaser, syft, cosign, crane and helm in bin/ (make release-rehearsal builds them).
var rehearse = flag.Bool("rehearse", false,
	"make the releases with goreleaser, sign and verify them, and write bin/rehearsal.txt")

// A pre-release and its release are made and published on loopback, and then installed from both kinds of chart
// repository, upgraded and rolled back in a cluster. With -rehearse, goreleaser, ko, syft and cosign make them as
// release.yml does, and their signatures are verified; without, the images are of this test.
func TestReleaseIntoACluster(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	site := filepath.Join(s.work, "site")
	host := serve(t, site)
	s.env = append(s.env, "REGISTRY="+host+"/csccm", "SITE="+filepath.Join(site, "charts"), "PLAIN_HTTP=true")
	if *rehearse {
		s.keys()
	}
	digests := map[string]string{}
	for _, version := range []string{candidate, final} {
		s.changelog("## [" + final + "]\n\n### Added\n\n- Everything, in " + version + ".\n")
		s.say("Release " + version + ".")
		s.tag(version)
		digests[version] = s.publish(host)
	}
	require.NotEqual(t, digests[candidate], digests[final], "both releases have the same image")
	if *rehearse {
		s.verify(host, digests[final])
		s.reproduce()
	}
	image := func(version string) string { return host + "/csccm/" + name + ":v" + version + "@" + digests[version] }

	e := newEnv(t, map[string]string{
		image(candidate): pull(t, image(candidate), runtime.GOARCH),
		image(final):     pull(t, image(final), runtime.GOARCH),
	})
	home := t.TempDir()
	u := &shell{
		t: t, dir: home, programs: map[string]string{"helm": s.programs["helm"], "csccm": e.cli, "kubectl": e.Kubectl},
		env: []string{"HOME=" + home, "KUBECONFIG=" + e.Kubeconfig, "PATH=/usr/bin:/bin", "COLUMNS=100"},
	}
	u.text.WriteString(strings.ReplaceAll(s.text.String(), s.work, "/home/maintainer"))
	values := "# Process nodes have no network of their own.\nhostNetwork: false\nbindAddress: " +
		"$(POD_IP)\nreplicaCount: 1\n" +
		"image: {repository: " + host + "/csccm/" + name + "}\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "values.yaml"), []byte(values), 0o600))
	s.run("cp", s.keyring, filepath.Join(home, "chart.gpg"))
	running := func(version string) { t.Helper(); e.runs(image(version)) }
	do := func(line string) { t.Helper(); u.step("helm", strings.Fields(line)...) }
	const system, verified = " --namespace kube-system", " --verify --keyring chart.gpg --namespace kube-system"
	const install, patient = " --values values.yaml --wait --timeout 10m", " --wait --timeout 10m"

	u.say("From the chart repository on the web server. Helm lists the pre-release only on request.")
	do("repo add csccm http://" + host + "/charts")
	do("search repo csccm --versions")
	do("search repo csccm --versions --devel")
	u.say("Verified by the PGP key, and installed. The key of somebody else is refused.")
	_, stranger := pgp(t, t.TempDir(), "stranger")
	u.refused("openpgp: signature made by unknown entity",
		"helm", "install", name, "csccm/"+name, "--version", candidate, "--verify", "--keyring", stranger)
	do("install " + name + " csccm/" + name + " --version " + candidate + verified + install)
	running(candidate)
	e.initialized("demo-cp-1", "demo-worker-1")
	u.say("The Pod runs the image of the release, by digest.")
	u.step("kubectl", "-n", "kube-system", "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}")
	do("test " + name + system + " --logs")
	u.say("The release. --reuse-values keeps the values, but not the digest of the release before.")
	do("upgrade " + name + " csccm/" + name + " --version " + final + verified + " --reuse-values" + patient)
	running(final)
	u.say("And back.")
	do("rollback " + name + system + patient)
	running(candidate)
	do("uninstall " + name + system + " --wait")

	u.say("The same from the registry.")
	chart := "oci://" + host + "/csccm/charts/" + name
	do("install " + name + " " + chart + " --version " + candidate + " --plain-http" + verified + install)
	running(candidate)
	do("upgrade " + name + " " + chart + " --version " + final + " --plain-http" + verified + install)
	running(final)
	do("rollback " + name + " 1" + system + patient)
	running(candidate)

	u.say("csccm upgrades what helm installed, by Helm's library.")
	u.step("csccm", "upgrade", "--chart", chart, "--version", final, "--yes")
	running(final)
	u.step("csccm", "status")
	text := strings.ReplaceAll(strings.ReplaceAll(u.text.String(), host, "127.0.0.1:5000"), home, "/home/me")
	assert.NotContains(t, text, password)
	if *rehearse {
		require.NoError(t, os.WriteFile(filepath.Join(s.root, "bin", "rehearsal.txt"), []byte(text), 0o600))
	}
}

// The steps refuse a release without a tag, a release without notes, and a release whose chart is already published.
func TestRefusedReleases(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	site := filepath.Join(s.work, "site")
	s.env = append(s.env, "REGISTRY="+serve(t, site)+"/csccm", "SITE="+site, "UNSIGNED=true", "PLAIN_HTTP=true",
		"IMAGE_DIGEST=sha256:"+strings.Repeat("a", 64))
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "no tag")
	s.refused("No names found", "release/steps", "package")

	s.changelog("## [Unreleased]\n\n- new\n\n## [0.0.9]\n\n- old\n")
	s.tag(final)
	s.refused("CHANGELOG.md has no section ## [0.1.0]", "release/steps", "notes")
	s.tag(candidate)
	s.git("tag", "-d", "v"+final)
	assert.Equal(t, "- new", strings.TrimSpace(s.run("release/steps", "notes")))

	s.run("release/steps", "package")
	s.run("release/steps", "publish")
	s.refused("a published version does not change", "release/steps", "publish")
}
