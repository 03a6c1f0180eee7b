// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/kube/rights"
)

// Every kind of the chart, whatever its values, is in the table of csccm's rights: for those who make it and for those who
// delete it.
func TestRightsCoverTheChart(t *testing.T) {
	t.Parallel()
	c := execute(t, "template", "--kube-version", "v1.37.1", "--set", "grafanaDashboard.enabled=true",
		"--set", "serviceMonitor.enabled=true", "--set", "prometheusRule.enabled=true")
	require.Equal(t, 0, c.code, c.errOut)
	daemonSet := execute(t, "template", "--kube-version", "v1.37.1", "--set", "kind=DaemonSet")
	require.Equal(t, 0, daemonSet.code, daemonSet.errOut)
	var kinds []schema.GroupResource
	for _, doc := range strings.Split(c.out+"\n---\n"+daemonSet.out, "\n---") {
		var o struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
		if o.Kind == "" || o.Kind == "Pod" { // helm test's, which no command makes
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
		kinds = append(kinds, resource.GroupResource())
	}
	require.Greater(t, len(kinds), 20)
	for command, verbs := range map[string][]string{"install": {"get", "create", "patch"}, "upgrade": {"get", "create", "patch", "delete"}, "uninstall": {"get", "delete"}} {
		needed, _ := rights.Requests(command, "infra", kinds)
		for _, k := range kinds {
			for _, verb := range verbs {
				require.True(t, slices.ContainsFunc(needed, func(r rights.Request) bool {
					return r.Verb == verb && r.Group == k.Group && r.Resource == k.Resource
				}), "%s: %s %v", command, verb, k)
			}
		}
	}
}

// Each command of the table is one of csccm's.
func TestRightsNameCommands(t *testing.T) {
	t.Parallel()
	root := newRootCommand(cli.Streams{})
	for _, r := range rights.Table() {
		for _, name := range r.Commands {
			cmd, _, err := root.Find([]string{name})
			require.NoError(t, err)
			require.Equal(t, name, cmd.Name())
		}
	}
}
