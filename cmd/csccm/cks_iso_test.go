// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/installer/report"
)

func TestCKSISO(t *testing.T) {
	t.Parallel()
	file, upstream := filepath.Join(t.TempDir(), "csccm.iso"), testenv.Upstream("v1.33.1", "arm64").ISO(t)
	args := []string{"cks", "iso", file, "--from", upstream, "--image", testenv.Image(t, "example.org/ccm:v1"), "--set",
		"image.repository=example.org/ccm,image.tag=v1"}
	r := execute(t, args...)
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	require.Regexp(t,
		`\n  cmk add kubernetessupportedversion semanticversion=1.33.1 url=http://WEB-SERVER/csccm.iso 'checksum=\{SHA-256\}\w+' mincpunumber=2 minmemory=2048\n`, r.out)
	r = execute(t, args...)
	require.Contains(t, r.errOut, "exists")
	require.Equal(t, report.ExitUsage, r.code)
}
