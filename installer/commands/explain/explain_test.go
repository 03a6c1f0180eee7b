// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/jsonpath"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/service/reasons"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

// TestEverythingIsExplained fails if an alert, a reason or a check lacks one of its texts.
func TestEverythingIsExplained(t *testing.T) {
	t.Parallel()
	kinds, lower := map[Kind]int{}, map[string]bool{}
	for _, topic := range Topics() {
		assert.False(t, lower[strings.ToLower(topic.Name)], "%s: two topics have the name, in other letters",
			topic.Name)
		lower[strings.ToLower(topic.Name)] = true
		for _, e := range topic.Entries {
			kinds[e.Kind]++
			assert.Equal(t, topic.Entries[0].Kind, e.Kind, "%s is the name of two kinds", topic.Name)
			for what, text := range map[string]string{
				"when it happens": e.When,
				"what it means":   e.Means,
				"how to see it":   strings.Join(e.See, ""),
				"how to end it":   e.End,
			} {
				assert.NotEmpty(t, text, "%s does not say %s", topic.Name, what)
				assert.NotContains(t, text, "{{", "%s: %s", topic.Name, what)
				assert.NotContains(t, text, "LEASE_NAME", "%s: %s", topic.Name, what)
			}
			for _, line := range e.See {
				program, _, _ := strings.Cut(line, " ")
				assert.Contains(t, []string{"csccm", "kubectl", "helm"}, program, "%s: %s", topic.Name, line)
			}
		}
	}

	assert.Equal(t, len(check.All()), kinds[Check])
	assert.Equal(t, len(reasons.Events)+len(reasons.NodeEvents), kinds[Event])
	assert.Equal(t, len(reasons.Conditions), kinds[Condition])
	assert.Equal(t, len(alerts()), kinds[Alert])
	assert.Greater(t, kinds[Alert], 10)
}

var update = flag.Bool("update", false, "write docs/runbooks.md and docs/checks.md again")

// TestPagesAreFresh: docs/runbooks.md and docs/checks.md hold what the tables say.
func TestPagesAreFresh(t *testing.T) {
	t.Parallel()
	var checks bytes.Buffer
	functions := template.FuncMap{"anchor": strings.ToLower, "sentence": sentence}
	tmpl, err := template.New("checks.md.tmpl").Funcs(functions).ParseFiles("testdata/checks.md.tmpl")
	require.NoError(t, err)
	require.NoError(t, tmpl.Execute(&checks, check.All()))
	for name, want := range map[string]string{"runbooks.md": page(), "checks.md": checks.String()} {
		golden.File(t, filepath.Join("..", "..", "..", "docs", name), want, *update, "make generate")
	}
}

// saidOnce matches the commands of the introduction, which page removes from the entries.
var saidOnce = regexp.MustCompile("(?m)^(kubectl get events -A --field-selector .*|kubectl describe service -n " +
	"NAMESPACE NAME|csccm plan NAMESPACE/NAME)\n")

const intro = "<!-- Generated from the tables of alerts and reasons by installer/commands/explain. Do not " +
	"edit. -->\n\n" + `# Runbooks

What these names mean, how to see more, and how to end the problem: [alerts](#alerts) of the chart (` + "`prometheusRule.enabled`" + `), [Events on
Services](#events-on-services) and [on Nodes](#events-on-nodes), and [reasons of conditions](#conditions-of-a-service). To see an Event:
` + "`kubectl get events -A --field-selector reason=NAME`. For a Service: `kubectl describe service -n NAMESPACE NAME` and\n`csccm plan NAMESPACE/NAME`" + `.
` + "`csccm doctor --explain NAME`" + ` prints the same without a network, also for the code of a [check](checks.md).
`

// page returns docs/runbooks.md, which has a section for each family except checks: docs/checks.md has those.
func page() string {
	var b strings.Builder
	b.WriteString(intro)
	for _, family := range []string{"Alerts", "Events on Services", "Events on Nodes", "Conditions of a Service"} {
		fmt.Fprintf(&b, "\n## %s\n", family)
		for _, t := range Topics() {
			if t.Entries[0].family != family {
				continue // each name has one heading, so that links find it
			}
			text := saidOnce.ReplaceAllString(strings.ReplaceAll(t.text(), "](runbooks.md#", "](#"), "")
			text = strings.NewReplacer("\n```sh\n```\n", "", "\nEvent on a "+t.Entries[0].Object+
				", ", "\n").Replace(text)
			fmt.Fprintf(&b, "\n### %s\n%s", t.Name, text)
		}
	}
	return b.String()
}

func TestFind(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"PortTaken":             "PortTaken",
		"porttaken":             "PortTaken",
		"node-001":              "NODE-001",
		"cloudstackccmnoleader": "CloudStackCCMNoLeader",
		"Waiting":               "Waiting",
	} {
		topic, err := Find(typed)
		require.NoError(t, err, typed)
		require.Equal(t, want, topic.Name)
	}

	for typed, near := range map[string]string{
		"NoLeader":  "CloudStackCCMNoLeader",
		"PortTakne": "PortTaken",
		"NODE-0001": "NODE-001",
		"orphan":    "CloudStackCCMOrphans or OrphanedInCloudStack",
		"":          "did you mean",
	} {
		_, err := Find(typed)
		require.ErrorContains(t, err, near, typed)
	}
}

// TestWriteText: a terminal gets no Markdown links.
func TestWriteText(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for _, topic := range Topics() {
		require.NoError(t, topic.WriteText(&b, report.Style{Width: 80}))
		require.Contains(t, b.String(), topic.Page)
	}
	require.NotContains(t, b.String(), "](")
	require.Contains(t, b.String(),
		"network ACL\n(docs/troubleshooting.md#the-network-acl-lets-nobody-in-or-cannot-be-changed).")
}

// TestJSONPaths: the expressions of kubectl's -o jsonpath and custom-columns parse.
func TestJSONPaths(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, topic := range Topics() {
		for _, entrie := range topic.Entries {
			for _, line := range entrie.See {
				var expressions []string
				if _, path, ok := strings.Cut(line, "-o jsonpath="); ok {
					expressions = []string{strings.Trim(path, "'")}
				}
				if _, columns, ok := strings.Cut(line, "-o custom-columns="); ok {
					for column := range strings.SplitSeq(strings.Trim(columns, "'"), ",") {
						expressions = append(expressions, "{"+column[strings.Index(column, ":")+1:]+"}")
					}
				}
				seen += len(expressions)
				for _, e := range expressions {
					require.NoError(t, jsonpath.New("").Parse(e), line)
				}
			}
		}
	}

	require.Greater(t, seen, 5)
}
