// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

func newRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// A release goes from one registry into another by one archive. What is attached to it is tested where it is made
// (release).
func TestImagesSaveAndLoad(t *testing.T) {
	t.Parallel()
	from, to := newRegistry(t)+"/csccm", newRegistry(t)+"/deep/path"
	digests := map[string]string{}
	for _, item := range []string{"cloudstack-ccm:v1.2.3", "csccm:v1.2.3", "cloudstack-sim:v1.2.3", "charts/cloudstack-ccm:1.2.3"} {
		ref, err := name.ParseReference(from + "/" + item)
		require.NoError(t, err)
		index, err := random.Index(100, 1, 2)
		require.NoError(t, err)
		require.NoError(t, remote.WriteIndex(ref, index, remote.WithContext(t.Context())))
		digest, err := index.Digest()
		require.NoError(t, err)
		digests[item] = digest.String()
	}
	file := filepath.Join(t.TempDir(), "csccm.tar")
	r := execute(t, "images", "save", file, "--from", from+"/", "--version", "1.2.3")
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	require.Contains(t, r.errOut, "save "+from+"/csccm:v1.2.3\n")
	require.Contains(t, r.out, from+"/charts/cloudstack-ccm:1.2.3\n")
	r = execute(t, "images", "load", file, "oci://"+to, "-o", "json")
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	var loaded carried
	require.NoError(t, json.Unmarshal([]byte(r.out), &loaded))
	require.Len(t, loaded.Images, 4)
	for item, digest := range digests {
		require.Contains(t, loaded.Images, to+"/"+item+"@"+digest)
	}

	junk := filepath.Join(t.TempDir(), "junk.tar")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o600))
	for want, args := range map[string][]string{
		"9.9.9":             {"save", file, "--from", from, "--version", "9.9.9"},
		"want HOST/PATH":    {"load", file, "https://" + to},
		"junk.tar":          {"load", junk, to},
		"no such file":      {"load", junk + ".not", to},
		"no such file or d": {"save", filepath.Join(junk+".not", "x.tar"), "--from", from, "--version", "1.2.3"},
	} {
		r := execute(t, append([]string{"images"}, args...)...)
		require.Equal(t, report.ExitFailure, r.code, r.errOut)
		require.Contains(t, r.errOut, want)
	}
}
