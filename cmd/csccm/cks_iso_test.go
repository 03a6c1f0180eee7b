// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso"
	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/installer/commands/cks/iso/volume"
	"github.com/csccm/csccm/installer/engine/report"
)

// newControllerImage pushes an image for amd64 and arm64 to a registry, and returns its repository and digest.
func newControllerImage(t *testing.T, tag string) (repository, digest string) {
	t.Helper()
	repository = newRegistry(t) + "/csccm/cloudstack-ccm"
	all := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := random.Image(100, 1)
		require.NoError(t, err)
		image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: arch})
		require.NoError(t, err)
		all = mutate.AppendManifests(all, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	ref, err := name.ParseReference(repository + ":" + tag)
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, all, remote.WithContext(t.Context())))
	hash, err := all.Digest()
	require.NoError(t, err)
	return repository, hash.String()
}

func TestCKSISO(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "arm64")
	repository, digest := newControllerImage(t, "v0.1.0")
	dir := t.TempDir()
	file := filepath.Join(dir, "csccm.iso")
	args := []string{
		"cks", "iso", file, "--from", upstream.ISO(t), "--kubernetes-version", "v1.33.1",
		"--set", "image.repository=" + repository, "--set", "image.digest=" + digest, "--external-kubelets",
	}
	dry := execute(t, append(args, "--dry-run", "-o", "json")...)
	require.Equal(t, report.ExitOK, dry.code, dry.errOut)
	var planned, written iso.Result
	require.NoError(t, json.Unmarshal([]byte(dry.out), &planned))
	require.NoFileExists(t, file)

	r := execute(t, append(args, "-o", "json")...)
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	require.NoError(t, json.Unmarshal([]byte(r.out), &written))
	require.True(t, planned.DryRun)
	planned.DryRun = false
	require.Equal(t, planned, written)
	body, err := os.ReadFile(file) // #nosec G304 -- written above
	require.NoError(t, err)
	sum := sha256.Sum256(body)
	require.Equal(t, "{SHA-256}"+hex.EncodeToString(sum[:]), written.Checksum)
	require.Equal(t, digest, written.Images[0].Digest)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)

	v, err := volume.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	provider, err := fs.ReadFile(v, "provider.yaml")
	require.NoError(t, err)
	require.Contains(t, string(provider), digest)
	dropIn, err := fs.ReadFile(v, "10-kubeadm.conf")
	require.NoError(t, err)
	require.Contains(t, string(dropIn), "--cloud-provider=external")

	// The image comes from an archive of csccm images save as well, and then the ISO is the same.
	archive := filepath.Join(dir, "csccm.tar")
	for _, item := range []string{"csccm:v0.1.0", "cloudstack-sim:v0.1.0", "charts/cloudstack-ccm:0.1.0"} {
		ref, err := name.ParseReference(filepath.Dir(repository) + "/" + item)
		require.NoError(t, err)
		require.NoError(t, remote.WriteIndex(ref, empty.Index, remote.WithContext(t.Context())))
	}
	saved := execute(t, "images", "save", archive, "--from", filepath.Dir(repository), "--version", "0.1.0")
	require.Equal(t, report.ExitOK, saved.code, saved.errOut)
	args[2] = filepath.Join(dir, "offline.iso")
	r = execute(t, append(args, "--images", archive)...)
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	require.Contains(t, r.out, "checksum: "+written.Checksum+"\n")
	require.Contains(t, r.out, "\n  csccm cks versions add --url http://WEB-SERVER/offline.iso --checksum '"+written.Checksum+"'\n")
	require.Regexp(t, `(?m)^provider.yaml +replaced `, r.out)
	require.Regexp(t, `(?m)^docker/cloudstack-kubernetes-provider:v1.1.0.tar +removed `, r.out)
	require.Contains(t, r.errOut, "write "+args[2]+"\n")

	for want, c := range map[string]struct {
		args []string
		code int
	}{
		"--from names the ISO":           {[]string{"x.iso"}, report.ExitUsage},
		"name one file to write":         {nil, report.ExitUsage},
		"makes the Secret of the contro": {[]string{"x.iso", "--from", file, "-n", "infra"}, report.ExitUsage},
		"exists":                         {args[2:], report.ExitUsage},
		"--images: open":                 {[]string{filepath.Join(dir, "x.iso"), "--from", file, "--images", file + ".not"}, report.ExitFailure},
	} {
		r := execute(t, append([]string{"cks", "iso"}, c.args...)...)
		require.Contains(t, r.errOut, want)
		require.Equal(t, c.code, r.code, r.errOut)
	}
}
