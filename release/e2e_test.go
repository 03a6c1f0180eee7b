// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/provenance"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/mirror"
	"github.com/csccm/csccm/release/verify"
)

// A pre-release and its final release are made from a tree, published to a registry and a web site, copied to another
// registry, and verified as users do.
//
//nolint:paralleltest // sets environment variables
func TestReleaseFromTreeToUser(t *testing.T) {
	f := newFixture(t)
	site := t.TempDir()
	server := httptest.NewServer(trialHandler(site))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	registry := host + "/csccm"
	publish := func(dir string) string {
		return f.must("publish", "--dir", dir, "--key", f.key, "--registry", registry, "--site", site, "--plain-http")
	}

	// 0.1.0-rc.1 is refused until it is tagged and tested.
	out, err := f.release("check", "--version", "v0.1.0-rc.1", "--govulncheck", "true")
	require.Error(t, err)
	assert.Contains(t, out, "no  tag             the commit has no tag v0.1.0-rc.1")
	f.git("tag", "v0.1.0-rc.1")
	dry := f.must("make", "--dry-run", "--key", f.key, "--govulncheck", "true", "--output", filepath.Join(t.TempDir(), "none"))
	assert.Contains(t, dry, "no  tests")
	assert.Contains(t, dry, "would be refused")
	assert.Contains(t, dry, "would build csccm_0.1.0-rc.1_windows_arm64.zip")
	assert.NotContains(t, dry, "cloudstack-ccm_0.1.0-rc.1_darwin")
	_, err = f.release("make", "--key", f.key, "--govulncheck", "true", "--output", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "this tree may not be released")
	f.must("test", "true")
	candidate, _ := f.make()
	notes, err := os.ReadFile(filepath.Join(candidate, "notes.md"))
	require.NoError(t, err)
	assert.Contains(t, string(notes), "This is a pre-release")
	assert.Contains(t, string(notes), "## Added\n\n- All of it.")
	publish(candidate)

	// 0.1.0 is another commit with other files.
	f.write("CHANGELOG.md", "# Changelog\n\n## [0.1.0] - 2026-11-21\n\n### Added\n\n- All of it.\n")
	f.commit("release 0.1.0")
	f.git("tag", "v0.1.0")
	_, err = f.release("publish", "--dir", candidate, "--key", f.key, "--registry", registry, "--plain-http")
	require.ErrorContains(t, err, "the release was built from commit")
	f.must("test", "true")
	final, _ := f.make()
	dry = f.must("publish", "--dir", final, "--key", f.key, "--registry", registry, "--site", site, "--plain-http", "--dry-run")
	assert.Contains(t, dry, "would push "+registry+"/cloudstack-ccm:v0.1.0@sha256:")
	assert.NoFileExists(t, filepath.Join(site, "releases", "v0.1.0", "SHA256SUMS"))
	publish(final)
	before := contents(t, site)
	publish(final)
	assert.Equal(t, before, contents(t, site), "publishing again changes nothing")

	key := f.publicKey()
	options := verify.ImageOptions{Key: key, PlainHTTP: true, Require: []string{"signature", "provenance"}}
	checkRegistry := func(registry string) map[string]string {
		digests := map[string]string{}
		for _, item := range []string{
			"cloudstack-ccm:v0.1.0-rc.1", "cloudstack-ccm:v0.1.0", "csccm:v0.1.0", "cloudstack-sim:v0.1.0", "charts/cloudstack-ccm:0.1.0",
		} {
			if registry != host+"/csccm" && strings.HasSuffix(item, "rc.1") {
				continue
			}
			report, err := verify.Image(t.Context(), "oci://"+registry+"/"+item, options)
			require.NoError(t, err, item)
			var have []string
			for _, e := range report.Evidence {
				have = append(have, e.Kind+" "+e.Form)
			}
			assert.ElementsMatch(t, []string{"signature bundle", "provenance bundle", "signature tag"}, have, item)
			if !strings.HasPrefix(item, "charts/") {
				require.Len(t, report.Platforms, 1)
				have = nil
				for _, e := range report.Platforms[0].Evidence {
					have = append(have, e.Kind+" "+e.Form)
				}
				assert.ElementsMatch(t, []string{"signature bundle", "sbom bundle", "signature tag"}, have, item)
			}
			digests[item] = report.Digest
		}
		return digests
	}
	digests := checkRegistry(registry)

	// Load the chart from both places; the pre-release only with its version.
	for _, ref := range []string{server.URL + "/charts", "oci://" + registry + "/charts/cloudstack-ccm"} {
		for version, want := range map[string]string{"": "0.1.0", "0.1.0-rc.1": "0.1.0-rc.1"} {
			chart, err := helm.Load(ref, version)
			require.NoError(t, err, ref)
			assert.Equal(t, want, chart.Version())
			assert.Equal(t, "v"+want, chart.AppVersion())
		}
	}

	// Verify files as a user downloads them.
	download := filepath.Join(site, "releases", "v0.1.0")
	report, err := verify.Files(filepath.Join(download, verify.SumsFile), nil, key)
	require.NoError(t, err)
	assert.Greater(t, len(report.Files), 8)
	for _, file := range report.Files {
		assert.True(t, file.Provenance, file.Name)
	}
	keyring, err := provenance.NewFromKeyring(f.pgpPublic, "")
	require.NoError(t, err)
	packaged := filepath.Join(site, "charts", "cloudstack-ccm-0.1.0.tgz")
	_, err = keyring.Verify(packaged, packaged+".prov")
	require.NoError(t, err)
	krew := before["releases/v0.1.0/csccm.yaml"]
	archive := "csccm_0.1.0_linux_" + runtime.GOARCH + ".tar.gz"
	sum, err := verify.Digest(filepath.Join(download, archive))
	require.NoError(t, err)
	assert.Contains(t, krew, "sha256: "+sum)
	assert.Contains(t, krew, "/v0.1.0/"+archive)

	// Copy the release to a registry without Internet access.
	tar := filepath.Join(t.TempDir(), "csccm.tar")
	with := mirror.Options{PlainHTTP: true}
	require.NoError(t, mirror.Save(t.Context(), registry, mirror.Images("0.1.0"), tar, with))
	other := httptest.NewServer(trialHandler(t.TempDir()))
	t.Cleanup(other.Close)
	inside := strings.TrimPrefix(other.URL, "http://") + "/deep/path"
	loaded, err := mirror.Load(t.Context(), tar, inside, with)
	require.NoError(t, err)
	assert.Contains(t, loaded, inside+"/cloudstack-ccm:v0.1.0@"+digests["cloudstack-ccm:v0.1.0"])
	mirrored := checkRegistry(inside)
	for item, digest := range mirrored {
		assert.Equal(t, digests[item], digest, item)
	}

	// Making the release again gives the same bytes, including signatures, except for the PGP signature, which contains
	// a salt and a time.
	again, _ := f.make()
	first, second := contents(t, final), contents(t, again)
	for _, name := range []string{"cloudstack-ccm-0.1.0.tgz.prov", verify.SumsFile, verify.SumsSignature, verify.SumsBundle, verify.ProvenanceFile} {
		delete(first, name)
		delete(second, name)
	}
	assert.Equal(t, first, second)

	// No file contains a password.
	for name, text := range before {
		assert.NotContains(t, text, "geheim", name)
	}
	assert.NotContains(t, dry, "geheim")
}

// Published versions do not change, and only complete, signed and unmodified releases are published.
//
//nolint:paralleltest // sets environment variables
func TestPublishRefuses(t *testing.T) {
	f := newFixture(t)
	f.git("tag", "v0.1.0-rc.1")
	f.must("test", "true")
	site := t.TempDir()
	server := httptest.NewServer(trialHandler(site))
	t.Cleanup(server.Close)
	registry := strings.TrimPrefix(server.URL, "http://") + "/csccm"
	dir, _ := f.make()
	publish := func(dir string, more ...string) error {
		_, err := f.release(append([]string{"publish", "--dir", dir, "--registry", registry, "--site", site, "--plain-http"}, more...)...)
		return err
	}
	require.ErrorContains(t, publish(t.TempDir(), "--key", f.key), "no release")
	require.ErrorContains(t, publish(dir), "--key names the private key")
	require.ErrorContains(t, publish(dir, "--key", f.key, "--unsigned"), "cannot be combined")
	other := filepath.Join(t.TempDir(), "other")
	f.must("key", "--prefix", other)
	_, err := f.release("key", "--prefix", other)
	require.ErrorIs(t, err, os.ErrExist)
	require.ErrorContains(t, publish(dir, "--key", other+".key"), "cosign.pub has the fingerprint")
	require.NoError(t, publish(dir, "--key", f.key))

	// The same version with other files.
	f.write("cmd/csccm/more.go", "package main\n\nfunc init() { println() }\n")
	f.write("charts/cloudstack-ccm/LICENSE", "more\n")
	f.commit("two")
	f.git("tag", "-f", "v0.1.0-rc.1")
	f.must("test", "true")
	changed, _ := f.make()
	require.ErrorContains(t, publish(changed, "--key", f.key), "a published version does not change")

	// A file that was changed after release make.
	require.NoError(t, os.WriteFile(filepath.Join(changed, "notes.md"), []byte("x"), 0o600))
	require.ErrorContains(t, publish(changed, "--key", f.key), "notes.md does not match SHA256SUMS")

	snapshot, out := f.make("--snapshot", "--only", "csccm")
	assert.Contains(t, out, "snapshot: nothing is checked")
	require.ErrorContains(t, publish(snapshot, "--key", f.key), "this is a snapshot")
	_, err = f.release("make", "--snapshot", "--unsigned", "--output", snapshot)
	require.ErrorContains(t, err, "is not empty")
}
