// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The cosign commands in docs/verify.md work with the real cosign: `make interop` builds it and sets CSCCM_COSIGN.
//
//nolint:paralleltest // sets environment variables
func TestCosignVerifies(t *testing.T) {
	cosign := os.Getenv("CSCCM_COSIGN")
	if cosign == "" {
		t.Skip("CSCCM_COSIGN names no cosign (make interop)")
	}
	f := newFixture(t)
	// Keys that cosign generated can be used too.
	keys := t.TempDir()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), cosign, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = keys, &out, &out
		// The test must not depend on the user's TUF cache.
		cmd.Env = append(os.Environ(), "HOME="+keys, "SIGSTORE_NO_CACHE=1")
		err := cmd.Run()
		return out.String(), err
	}
	must := func(args ...string) string {
		out, err := run(args...)
		require.NoError(t, err, "%v\n%s", args, out)
		return out
	}
	server := httptest.NewServer(trialHandler(t.TempDir()))
	t.Cleanup(server.Close)
	registry := strings.TrimPrefix(server.URL, "http://") + "/csccm"
	f.git("tag", "v0.1.0-rc.1")
	f.must("test", "true")

	must("generate-key-pair")
	ours := f.public
	for _, key := range []string{filepath.Join(keys, "cosign.key"), f.key} {
		f.key = key
		public := strings.TrimSuffix(key, ".key") + ".pub"
		server := httptest.NewServer(trialHandler(t.TempDir()))
		t.Cleanup(server.Close)
		registry = strings.TrimPrefix(server.URL, "http://") + "/csccm"
		dir, _ := f.make()
		f.must("publish", "--dir", dir, "--key", key, "--registry", registry, "--plain-http")
		image := registry + "/cloudstack-ccm:v0.1.0-rc.1"
		chart := registry + "/charts/cloudstack-ccm:0.1.0-rc.1"
		flags := []string{"--key", public, "--insecure-ignore-tlog=true"}
		for _, ref := range []string{image, chart} {
			out := must(append([]string{"verify", ref}, flags...)...)
			assert.Contains(t, out, "The signatures were verified against the specified public key")
			// The format of cosign before version 3.
			out = must(append([]string{"verify", "--new-bundle-format=false", ref}, flags...)...)
			assert.Contains(t, out, "cosign container image signature")
			out = must(append([]string{"verify-attestation", "--type", "slsaprovenance1", ref}, flags...)...)
			assert.Contains(t, out, `"payloadType":"application/vnd.in-toto+json"`)
		}
		release, err := readContents(dir)
		require.NoError(t, err)
		platform := registry + "/cloudstack-ccm@" + release.Images[0].Platforms[0].Digest
		must(append([]string{"verify", platform}, flags...)...)
		must(append([]string{"verify-attestation", "--type", "cyclonedx", platform}, flags...)...)

		sums := filepath.Join(dir, "SHA256SUMS")
		must(append([]string{"verify-blob", "--bundle", sums + ".sigstore.json", sums}, flags...)...)
		must(append([]string{"verify-blob", "--new-bundle-format=false", "--signature", sums + ".sig", sums}, flags...)...)
		archive := filepath.Join(dir, "csccm_0.1.0-rc.1_linux_"+runtime.GOARCH+".tar.gz")
		must(append([]string{
			"verify-blob-attestation", "--bundle", filepath.Join(dir, "provenance.sigstore.json"), "--type", "slsaprovenance1", archive,
		}, flags...)...)
	}
	out, err := run("verify", "--key", filepath.Join(keys, "cosign.pub"), "--insecure-ignore-tlog=true", registry+"/cloudstack-ccm:v0.1.0-rc.1")
	require.Error(t, err, "another key verifies: %s", out)
	assert.FileExists(t, ours)
}
