// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// made returns the result of a check that found f.
func made(code string, severity Severity, f Finding) Result {
	return ResultOf(&Check{Code: code, Title: "title of " + code, Severity: severity, Remedy: "the usual"}, f, 0)
}

// sample has one check of each outcome.
func sample() Report {
	var nodes []Object
	for _, n := range strings.Split("abcdefghijklm", "") {
		nodes = append(nodes,
			Object{Kind: "Node", Name: "worker-" + n, Message: "not-external (/flagz: --cloud-provider=\"\")"})
	}
	waiting := made("T-004", SeverityError, Skipf("needs T-003, which failed"))
	waiting.Needs = "T-003"
	return NewReport(&Facts{Setup: Setup{Phase: PhaseInstalled}}, 0, []Result{
		made("T-001", SeverityFatal, Passf("v1.37.1 at https://192.0.2.1:6443")),
		made("T-002", SeverityWarning,
			Problemf("13 of 13 nodes without it").About(nodes...).With("distribution", "kubeadm")),
		made("T-003", SeverityError, Problemf("nobody holds a lease").Fix("look at the log")), waiting,
		made("T-005", SeverityError, Unknownf("could not be read")),
	})
}

// An unknown result does not count as success, and the API server's version says nothing about a controller.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	version, well := made("K8S-001", SeverityFatal, Passf("v1.37.1")), made("T-003", SeverityError, Passf(""))
	dark, na := made(
		"T-001", SeverityError, Unknownf("forbidden").Fix("ask for the right"),
	), made("T-002", SeverityError, Skipf("none"))
	waits := made("T-007", SeverityError, Skipf("needs T-002, which was skipped"))
	waits.Needs = "T-002"
	failed, warning := made("T-004", SeverityError, Problemf("")), made("T-005", SeverityWarning, Problemf(""))
	for name, tt := range map[string]struct {
		checks        []Result
		text          string // the error; empty if the report has already printed the problem
		plain, strict int
	}{
		"all unknown": {[]Result{dark}, "nothing could be judged: 1 unknown, 0 skipped; T-001: forbidden", 3,
			3},
		"unknown and skipped": {[]Result{version, na, dark},
			"nothing could be judged: 1 unknown, 1 skipped; T-001: forbidden", 3, 3},
		"all skipped":          {[]Result{na}, "nothing could be judged: 0 unknown, 1 skipped; T-002: none", 3, 3},
		"only the version":     {[]Result{version}, "", 0, 0},
		"one is judged":        {[]Result{dark, well}, "", 0, 4},
		"one is judged, badly": {[]Result{dark, failed}, "", 3, 3},
		"a warning":            {[]Result{well, warning}, "", 0, 4},
		"an explicit warning":  {[]Result{well, made("T-006", SeverityError, Warnf(""))}, "", 0, 4},
		"skipped":              {[]Result{well, na}, "", 0, 0},
		"skipped for another":  {[]Result{well, na, waits}, "", 0, 4},
	} {
		for failOn, code := range map[Severity]int{SeverityError: tt.plain, SeverityWarning: tt.strict} {
			err := NewReport(&Facts{}, 0, tt.checks).Err(failOn)
			if code == 0 {
				require.NoError(t, err, name)
				continue
			}

			var e *report.Error
			require.ErrorAs(t, err, &e, name)
			require.Equal(t, code, e.Code, name)
			require.Equal(t, tt.text == "", e.Silent(), name)
			if tt.text != "" {
				require.EqualError(t, e, tt.text, name)
			}
		}
	}
}

func TestJSONFollowsTheSchema(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("report.schema.json", doc))
	s, err := c.Compile("report.schema.json")
	require.NoError(t, err)
	for _, r := range []Report{sample(), NewReport(&Facts{}, 0, []Result{})} {
		var b bytes.Buffer
		require.NoError(t, report.Encode(&b, "json", r))
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
		require.NoError(t, err)
		require.NoError(t, s.Validate(doc), b.String())
		doc.(map[string]any)["extra"] = 1
		require.ErrorContains(t, s.Validate(doc), "extra", "it is strict")
	}
}

// Output that the transcripts do not show.
func TestText(t *testing.T) {
	t.Parallel()
	text := func(o TextOptions) string {
		var b bytes.Buffer
		require.NoError(t, sample().WriteText(terminal.Writer(&b), o))
		return b.String()
	}

	plain := text(TextOptions{Style: report.Style{Unicode: true, Width: 100}})
	require.NotContains(t, plain, "\x1b")
	require.Contains(t, plain, "    ... and 3 more (-v shows all)\n")
	require.Contains(t, plain, "? T-005 title of T-005: could not be read\n")
	require.Contains(t, plain, "\n- skipped until T-003 passes: T-004\n")
	verbose := text(TextOptions{Style: report.Style{Unicode: true}, Verbose: true})
	for _, want := range []string{"worker-m", "    distribution: kubeadm\n", " ms)"} {
		require.Contains(t, verbose, want)
		require.NotContains(t, plain, want)
	}

	short := text(TextOptions{Short: true})
	require.NotContains(t, short, "T-001")
	require.NotContains(t, short, "T-004")
	require.True(t, strings.HasPrefix(short, "warn T-002"), "ASCII marks: %s", short)
	require.Contains(t, text(TextOptions{Style: report.Style{Unicode: true, Color: true}}), "\x1b[31m✗\x1b[0m T-003")
}

// A check needs only checks that come before it.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, c := range All() {
		for _, source := range slices.Concat(c.Reads, c.Tries) {
			require.Contains(t, slices.Concat(OfKube, OfCloud), source, c.Code)
		}
		require.Regexp(t, `^[A-Z0-9]+-[0-9]{3}$`, c.Code)
		require.NotContains(t, seen, c.Code)
		require.Subset(t, seen, c.Needs, c.Code)
		require.Contains(t, []Severity{SeverityFatal, SeverityError, SeverityWarning}, c.Severity, c.Code)
		require.NotEqual(t, strings.Split(c.Code, "-")[0], c.Category(), "it has no heading")
		seen = append(seen, c.Code)
	}

	group := func(code string) string { return categories[strings.Split(code, "-")[0]] }
	blocks := slices.CompactFunc(slices.Clone(seen), func(a, b string) bool { return group(a) == group(b) })
	require.Len(t, blocks, 8, "the checks of a heading stand together")
}

// The table of faults has a row for each that these scripts try, and every check.
func TestTableOfFaults(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/contributing/faults.md")
	require.NoError(t, err)
	var script []byte
	for _, name := range []string{"remedies", "life", "cks"} {
		text, err := os.ReadFile("../../test/e2e/testdata/script/" + name + ".txtar")
		require.NoError(t, err)
		script = append(script, text...)
	}

	var rows []string
	for _, fails := range regexp.MustCompile(`(?m)^fails (\S+) ('(?:[^']|'')+'|\S+).* # (.+)$`).FindAllStringSubmatch(string(script), -1) {
		said := strings.ReplaceAll(strings.Trim(fails[2], "'"), "''", "'")
		rows = append(rows, strings.Join([]string{fails[1], fails[3], "`" + strings.TrimSpace(said) + "`"}, " | "))
	}
	require.Len(t, rows, strings.Count(string(script), "\nfails "), "each says after # what the fault is")
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z0-9]+-\d+ \| .*) \| [\d.]+ s \| (.*) \| [\d.]+ s \|$`).FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1]+" | "+row[2])
	}
	require.Equal(t, rows, listed, "docs/contributing/faults.md: the rows are those of the scripts, in their order")
	for _, c := range All() {
		require.Contains(t, string(page), c.Code)
	}
}

// The checks and the chart support the same versions.
func TestMinimumIsTheChartsOwn(t *testing.T) {
	t.Parallel()
	chart, err := os.ReadFile("../../charts/cloudstack-ccm/Chart.yaml")
	require.NoError(t, err)
	require.Contains(t, string(chart), fmt.Sprintf("\nkubeVersion: \">=1.%d.", MinMinor))
}
