// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso"
	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/installer/engine/report"
)

func TestCKSISO(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, upstream := filepath.Join(dir, "csccm.iso"), testenv.Upstream("v1.33.1", "arm64").ISO(t)
	args := []string{"cks", "iso", file, "--from", upstream, "--image", testenv.Image(t, "example.org/ccm:v1"), "--set", "image.repository=example.org/ccm", "--set", "image.tag=v1"}
	r := execute(t, append(args, "-o", "json")...)
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	var written iso.Result
	require.NoError(t, json.Unmarshal([]byte(r.out), &written))
	require.Equal(t, "docker/ccm:v1.tar", written.Added)
	args[2] = filepath.Join(dir, "again.iso")
	r = execute(t, args...)
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	require.Contains(t, r.out, "\nchecksum: {SHA-256}")
	require.Regexp(t, `\n  cmk add kubernetessupportedversion semanticversion=1.33.1 url=http://WEB-SERVER/again.iso 'checksum=\{SHA-256\}\w+' mincpunumber=2 minmemory=2048\n`, r.out)
	for want, args := range map[string][]string{
		"--from names the ISO":                  {"x.iso"},
		"needs one argument, the file to write": nil,
		"exists":                                args[2:],
		"no archive of image":                   {filepath.Join(dir, "x.iso"), "--from", upstream, "--image", upstream},
	} {
		r := execute(t, append([]string{"cks", "iso"}, args...)...)
		require.Contains(t, r.errOut, want)
		require.Equal(t, report.ExitUsage, r.code, r.errOut)
	}
}
