// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/status"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

var update = flag.Bool("update", false, "write the transcripts")

// fixed is the time of the transcripts.
var fixed = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// transcript compares what doctor and status say with docs/transcripts.
func transcript(t *testing.T, name string, w *world, r check.Report, f *check.Facts) {
	t.Helper()
	var b bytes.Buffer
	style := report.Style{Unicode: true, Width: 110}
	b.WriteString("$ csccm doctor\n")
	require.NoError(t, r.WriteText(&b, check.TextOptions{Style: style}))
	b.WriteString("\n$ csccm status\n")
	before := bytes.Count(b.Bytes(), []byte("\n"))
	require.NoError(t, status.New(r, f).WriteText(&b, style, false))
	const screen = 23
	require.LessOrEqual(t, bytes.Count(b.Bytes(), []byte("\n"))-before, screen, "status fits one screen of 24 lines")
	text := strings.ReplaceAll(b.String(), w.env.Cluster.Server, "https://192.0.2.10:6443")
	text = strings.ReplaceAll(text, w.env.CloudConfig.APIURL, "https://cloud.example.org/client/api")
	golden.File(t, filepath.Join("..", "..", "..", "docs", "transcripts", name), text, *update, "go test ./installer/check/inspect -update")
}

func doctorAt(t *testing.T, w *world) (check.Report, *check.Facts) {
	t.Helper()
	r, f := inspect.Facts(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
	noKeys(t, w, r)
	return r, f
}

func TestTranscriptOfAHealthyCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, f := doctorAt(t, w)
	require.Zero(t, exitCode(r, check.SeverityWarning))
	transcript(t, "doctor-healthy.txt", w, r, f)
}

// All faults that do not hide each other stand in one cluster, and each is found by its code.
func TestTranscriptOfABrokenCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	codes := map[string]check.Outcome{}
	for _, f := range faults() {
		if f.together {
			f.inject(t, w)
			codes[f.code] = f.outcome
		}
	}
	require.GreaterOrEqual(t, len(codes), 20)
	r, facts := doctorAt(t, w)
	require.Equal(t, 3, exitCode(r, check.SeverityError))
	found := byCode(r)
	for code, outcome := range codes {
		require.Equal(t, outcome, found[code].Outcome, "%+v", found[code])
	}
	transcript(t, "doctor-broken.txt", w, r, facts)

	// A check that reads more than it declares says something else when it runs alone.
	for _, c := range r.Checks {
		alone := byCode(inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled, Only: []string{c.Code}}, nil))[c.Code]
		require.Equal(t, c.Outcome, alone.Outcome, "%+v", alone)
		if c.Code != "LB-001" { // which plans more Services when it is asked for
			require.Equal(t, c.Objects, alone.Objects, c.Code)
		}
	}
}
