// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/mirror"
	"github.com/csccm/csccm/release/verify"
)

// trial is a web site, and a registry that rejects writes after a number of them.
type trial struct {
	site, registry string
	writes, limit  atomic.Int64
	// password is the password of the user ci; "" means that the registry needs no authentication.
	password string
}

func newTrial(t *testing.T, limit int64) *trial {
	t.Helper()
	trial := &trial{site: t.TempDir()}
	trial.limit.Store(limit)
	handler := trialHandler(trial.site)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); trial.password != "" && (user != "ci" || password != trial.password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="trial"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead && trial.writes.Add(1) > trial.limit.Load() {
			http.Error(w, `{"errors":[{"code":"DENIED"}]}`, http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	trial.registry = strings.TrimPrefix(server.URL, "http://") + "/csccm"
	return trial
}

const enough = 1 << 30

// verify verifies the chart and all images; with onlyTagged those that have their tag.
func (tr *trial) verify(t *testing.T, o verify.ImageOptions, onlyTagged bool) {
	t.Helper()
	for _, item := range append([]string{chart}, images...) {
		if _, err := remote.Head(tr.tag(t, item), remote.WithContext(t.Context())); err != nil && onlyTagged {
			continue
		}
		_, err := verify.Image(t.Context(), tr.registry+"/"+item, o)
		require.NoError(t, err, "%s after %d writes", item, tr.limit.Load())
	}
}

func (tr *trial) publish(f *fixture, dir string, more ...string) error {
	// --plain-http is not needed: for a registry on a loopback address it is the default.
	_, err := f.release(append([]string{"publish", "--dir", dir, "--key", f.key, "--registry", tr.registry, "--site", tr.site}, more...)...)
	return err
}

func (tr *trial) tag(t *testing.T, item string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(tr.registry + "/" + item)
	require.NoError(t, err)
	return tag
}

// images are the images and the chart relative to the path of the registry.
var images = []string{"cloudstack-ccm:v0.1.0-rc.1", "csccm:v0.1.0-rc.1", "cloudstack-sim:v0.1.0-rc.1"}

const chart = "charts/cloudstack-ccm:0.1.0-rc.1"

// Wherever publishing is interrupted, no image or chart has a tag without a signature and the web site has no release,
// and running the command again completes the release.
//
//nolint:paralleltest // sets environment variables
func TestPublishInterrupted(t *testing.T) {
	f := newFixture(t)
	f.git("tag", "v0.1.0-rc.1")
	f.must("test", "true")
	dir, _ := f.make()
	key := f.publicKey()
	options := verify.ImageOptions{Key: key, Require: []string{"signature", "provenance"}}
	whole := newTrial(t, enough)
	require.NoError(t, whole.publish(f, dir))
	total := whole.writes.Load()
	const points = 8
	for point := range int64(points) {
		limit := total * point / points
		tr := newTrial(t, limit)
		require.Error(t, tr.publish(f, dir), "after %d of %d writes", limit, total)
		tr.verify(t, options, true)
		assert.Empty(t, contents(t, tr.site))
		tr.limit.Store(enough)
		require.NoError(t, tr.publish(f, dir), "after %d of %d writes", limit, total)
		tr.verify(t, options, false)
		assert.Equal(t, contents(t, whole.site), contents(t, tr.site))
	}

	// The same for loading a mirror's archive.
	archive := filepath.Join(t.TempDir(), "csccm.tar")
	require.NoError(t, mirror.Save(t.Context(), whole.registry, mirror.Images("0.1.0-rc.1"), archive, mirror.Options{PlainHTTP: true}))
	load := func(limit int64) (*trial, error) {
		tr := newTrial(t, limit)
		_, err := mirror.Load(t.Context(), archive, tr.registry, mirror.Options{})
		return tr, err
	}
	inside, err := load(enough)
	require.NoError(t, err)
	total = inside.writes.Load()
	for point := range int64(points) {
		limit := total * point / points
		tr, err := load(limit)
		require.Error(t, err, "after %d of %d writes", limit, total)
		tr.verify(t, options, true)
	}
}

// Conflicts with published files are found before anything is pushed, also in a dry run. Files that do not belong to
// the release are not published.
//
//nolint:paralleltest // sets environment variables
func TestPublishChecksFirst(t *testing.T) {
	f := newFixture(t)
	f.git("tag", "v0.1.0-rc.1")
	f.must("test", "true")
	dir, _ := f.make()
	again, _ := f.make() // the PGP signature differs
	require.NoError(t, os.WriteFile(filepath.Join(again, "cloudstack-ccm-0.0.9.tgz"), []byte("not of this release"), 0o600))
	other := filepath.Join(t.TempDir(), "cloudstack-ccm-0.1.0-rc.1.tgz")
	packed, err := os.ReadFile(filepath.Join(dir, filepath.Base(other)))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(other, packed, 0o600))
	const changed = "a published version does not change"

	for name, occupy := range map[string]func(tr *trial) error{
		"chart without its provenance file": func(tr *trial) error {
			pushChart(t, other, tr.tag(t, chart))
			return nil
		},
		"file of the site": func(tr *trial) error {
			folder := filepath.Join(tr.site, "releases", "v0.1.0-rc.1")
			return os.WriteFile(filepath.Join(mkdir(t, folder), "notes.md"), nil, 0o600)
		},
		"chart of the site": func(tr *trial) error {
			changed := "apiVersion: v1\nentries:\n  cloudstack-ccm:\n  - apiVersion: v2\n    name: cloudstack-ccm\n    version: 0.1.0-rc.1\n    digest: abc\n    urls: [x.tgz]\n"
			return os.WriteFile(filepath.Join(mkdir(t, filepath.Join(tr.site, "charts")), "index.yaml"), []byte(changed), 0o600)
		},
	} {
		tr := newTrial(t, enough)
		require.NoError(t, occupy(tr), name)
		before := contents(t, tr.site)
		for _, more := range [][]string{{"--dry-run"}, nil} {
			require.ErrorContains(t, tr.publish(f, dir, more...), changed, name)
		}
		for _, image := range images {
			_, err := remote.Head(tr.tag(t, image), remote.WithContext(t.Context()))
			require.Error(t, err, name)
		}
		assert.Equal(t, before, contents(t, tr.site), name)
	}

	// The site in the directory of the release, which is the default of serve.
	tr := newTrial(t, enough)
	tr.site = filepath.Join(again, "site")
	require.NoError(t, tr.publish(f, again))
	require.NoError(t, tr.publish(f, again))
	for file := range contents(t, tr.site) {
		assert.NotContains(t, file, "0.0.9")
	}
	info, err := os.Stat(filepath.Join(tr.site, "charts", "index.yaml"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode().Perm())
	hub, err := os.ReadFile(filepath.Join(tr.site, "charts", hubFile))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("..", "charts", hubFile))
	require.NoError(t, err)
	require.Equal(t, string(want), string(hub))
	repository := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(tr.site, "charts"))))
	t.Cleanup(repository.Close)
	_, err = helm.Load(repository.URL, "")
	require.Error(t, err, "a pre-release must be requested explicitly")
	loaded, err := helm.Load(repository.URL, "0.1.0-rc.1")
	require.NoError(t, err)
	assert.Equal(t, "0.1.0-rc.1", loaded.Version())

	for want, args := range map[string][]string{
		"--chart-registry needs --registry": {"--site", tr.site, "--chart-registry", tr.registry},
		"--registry: want HOST/PATH":        {"--registry", "https://" + tr.registry},
		"--chart-registry: want HOST/PATH":  {"--registry", tr.registry, "--chart-registry", "oci://" + tr.registry},
	} {
		_, err := f.release(append([]string{"publish", "--dir", dir, "--key", f.key}, args...)...)
		require.ErrorContains(t, err, want)
	}
}

// A CI job with only the tag (a shallow clone without a branch), with its credentials in DOCKER_CONFIG and without a
// home directory, makes the same release and publishes it.
//
//nolint:paralleltest // sets environment variables
func TestPublishFromAJob(t *testing.T) {
	f := newFixture(t)
	f.git("tag", "v0.1.0-rc.1")
	f.must("test", "true")
	dir, _ := f.make()
	origin := f.dir
	f.dir = filepath.Join(t.TempDir(), "job")
	cmd := exec.CommandContext(t.Context(), "git", "clone", "-q", "--depth", "1", "--branch", "v0.1.0-rc.1", "file://"+origin, f.dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	f.must("test", "true")
	again, _ := f.make()
	first, second := contents(t, dir), contents(t, again)
	for _, name := range []string{"cloudstack-ccm-0.1.0-rc.1.tgz", "csccm.yaml", "cloudstack-ccm_v0.1.0-rc.1.oci.tar", "release.json"} {
		// Compare checksums: a difference in the content would print megabytes.
		assert.Equal(t, sha256.Sum256([]byte(first[name])), sha256.Sum256([]byte(second[name])), name)
	}

	tr := newTrial(t, enough)
	tr.password = "geheim"
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	require.ErrorContains(t, tr.publish(f, again), "the registry answers Unauthorized: run docker login 127.0.0.1:")
	host, _, _ := strings.Cut(tr.registry, "/")
	login := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("ci:geheim")))
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(login), 0o600))
	require.NoError(t, tr.publish(f, again))
	key := f.publicKey()
	tr.verify(t, verify.ImageOptions{Key: key}, false)

	// A registry without Internet access may have only Helm's credentials.
	inside := newTrial(t, enough)
	inside.password = "geheim"
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("HELM_REGISTRY_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	insideHost, _, _ := strings.Cut(inside.registry, "/")
	auth := base64.StdEncoding.EncodeToString([]byte("ci:geheim"))
	login = fmt.Sprintf(`{"auths":{%q:{"auth":%q},%q:{"auth":%q}}}`, host, auth, insideHost, auth)
	require.NoError(t, os.WriteFile(os.Getenv("HELM_REGISTRY_CONFIG"), []byte(login), 0o600))
	archive := filepath.Join(t.TempDir(), "csccm.tar")
	require.NoError(t, mirror.Save(t.Context(), tr.registry, mirror.Images("0.1.0-rc.1"), archive, mirror.Options{}))
	_, err = mirror.Load(t.Context(), archive, inside.registry, mirror.Options{})
	require.NoError(t, err)
	inside.verify(t, verify.ImageOptions{Key: key}, false)
	for name, text := range contents(t, tr.site) {
		assert.NotContains(t, text, "geheim", name)
	}
}

// The documentation tells users to add the URL to which the chart repository's index is written.
func TestDocsNameChartRepository(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	all, err := pages.ReadAll(root)
	require.NoError(t, err)
	commands, err := pages.Commands(all, "helm")
	require.NoError(t, err)
	seen := 0
	for _, c := range commands {
		if len(c.Args) > 4 && slices.Equal(c.Args[1:3], []string{"repo", "add"}) && strings.HasPrefix(c.Args[4], "https://") {
			seen++
			assert.Equal(t, filepath.Base(filepath.Dir(new(publisher).indexFile())), path.Base(c.Args[4]), c.Page)
		}
	}
	assert.Equal(t, 2, seen)
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o750))
	return dir
}
