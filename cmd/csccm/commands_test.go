// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/installer/kube/rights"
)

func everyCommand(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

func allCommands() []*cobra.Command {
	return everyCommand(rootCommand(cli.New(cli.Streams{Getenv: environment()})))
}

// valueOf returns a value for a flag of a type; "x" for other types.
var valueOf = map[string]string{
	"duration":          "1s",
	"int":               "1",
	"int64":             "1",
	"float32":           "1",
	"ip":                "10.0.0.1",
	"auto|always|never": "never",
}

// A flag with an optional value would leave its value to the command as an argument, such as the name of a cluster. No
// flag takes a secret, because everyone on the machine can see command lines. --dry-run is a switch with the same
// meaning everywhere.
func TestFlagsOfEveryCommand(t *testing.T) {
	t.Parallel()
	walked, dry := 0, 0
	for i, c := range allCommands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := c.CommandPath() + " --" + f.Name
			secret := strings.Contains(f.Name, "password") || strings.Contains(f.Name, "key")
			file := strings.HasSuffix(f.Name, "-file") || strings.HasSuffix(f.Name, "-stdin")
			// --keypair takes the name of a key in CloudStack
			if i > 0 && secret && !file && !f.Hidden && f.Name != "keypair" {
				t.Errorf("%s takes a secret on the command line", name)
			}
			if f.Name == "dry-run" {
				dry++
				require.Equal(t, []string{cli.DryRunUsage, "bool"}, []string{f.Usage, f.Value.Type()}, name)
			}
		})

		check := func(f *pflag.Flag) {
			name := c.CommandPath() + " --" + f.Name
			if kind := f.Value.Type(); kind == "bool" || kind == "count" {
				return
			}
			walked++
			require.Empty(t, f.NoOptDefVal, name)
			value := valueOf[f.Value.Type()]
			if value == "" {
				value = "x"
			}
			fresh := allCommands()[i]
			require.NoError(t, fresh.ParseFlags([]string{"--" + f.Name, value, "last"}), name)
			require.Equal(t, []string{"last"}, fresh.Flags().Args(), name)
			require.True(t, fresh.Flags().Changed(f.Name), name)
		}

		c.LocalFlags().VisitAll(check)
		if i == 1 {
			c.InheritedFlags().VisitAll(check)
		}
	}

	require.Greater(t, walked, 100)
	require.Greater(t, dry, 15)
}

// Each `csccm ...` in a Markdown file is a command that exists, with flags that it has.
func TestCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	top, err := pages.Root()
	require.NoError(t, err)
	all, err := pages.ReadAll(top)
	require.NoError(t, err)
	commands, err := pages.Commands(all, "csccm")
	require.NoError(t, err)
	require.Greater(t, len(commands), 50)
	root := rootCommand(cli.New(cli.Streams{}))
	for _, c := range commands {
		if problem := c.Problem(root); problem != "" {
			t.Error(problem)
		}
	}
}

// Each command line that a command prints repeats the flags that select the cluster and record choices, if the printed
// command has them.
func TestPrintedCommandLines(t *testing.T) {
	t.Parallel()
	kubeconfig := " " + kubeconfig(t)

	for _, tc := range []struct{ running, text, want string }{
		{"doctor --kubeconfig K", "run csccm install", "run csccm install --kubeconfig K --context test"},
		{"doctor --kubeconfig K", "`kubectl -n x get y`, or see csccm plan --help",
			"`kubectl --kubeconfig K --context test -n x get y`, or see csccm plan --help"},
		{"install --kubeconfig K --skip-taint --skip-check A-1,B-2 --zone z",
			"csccm install again, or csccm taint NODE",
			"csccm install --kubeconfig K --context test --skip-taint --skip-check A-1,B-2 again, or csccm taint " +
				"--kubeconfig K --context test NODE"},
		{"doctor --kubeconfig K --cloud-config F --release r", "csccm plan; csccm upgrade; csccm template",
			"csccm plan --kubeconfig K --context test --release r --cloud-config F; csccm upgrade --kubeconfig K " +
				"--context test --release r; csccm template --kubeconfig K --context test --release r"},
		{"cks show demo --kubeconfig K", "csccm cks start demo; csccm cks cni list",
			"csccm cks start --kubeconfig K --context test demo; csccm cks cni list --kubeconfig K --context test"},
		{"cks cni delete x --cloud-config prod", "csccm cks cni list", "csccm cks cni list --cloud-config prod"},
		{"cks show demo --cloud-config prod --project team", "csccm cks start demo; csccm cks versions",
			"csccm cks start --cloud-config prod --project team demo; csccm cks versions --cloud-config prod " +
				"--project team"},
		{"doctor --kubeconfig K", "csccm install --kubeconfig K --context test --yes; csccm does",
			"csccm install --kubeconfig K --context test --yes; csccm does"},
	} {
		fresh := cli.New(cli.Streams{Getenv: environment()})
		cmd, rest, err := rootCommand(fresh).Find(strings.Fields(strings.ReplaceAll(tc.running, " K", kubeconfig)))
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(rest))
		require.Equal(t, strings.ReplaceAll(tc.want, " K", kubeconfig),
			cli.Carry(strings.ReplaceAll(tc.text, " K", kubeconfig), cmd, fresh.Connection))
	}
}

// The table of csccm's permissions contains every kind of object in the chart, whatever its values, for commands that
// create and for commands that delete it. Each command in the table exists.
func TestRightsCoverTheChart(t *testing.T) {
	t.Parallel()
	var kinds []schema.GroupResource
	for _, set := range []string{
		"grafanaDashboard.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true",
		"kind=DaemonSet",
	} {
		c := execute(t, "template", "--kube-version", "v1.37.1", "--set", set)
		require.Equal(t, 0, c.code, c.errOut)
		for doc := range strings.SplitSeq(c.out, "\n---") {
			var o struct{ APIVersion, Kind string }
			require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
			if o.Kind != "" && o.Kind != "Pod" { // only helm test creates a Pod
				resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
				kinds = append(kinds, resource.GroupResource())
			}
		}
	}

	require.Greater(t, len(kinds), 20)
	for command, verbs := range map[string][]string{
		"install":   {"get", "create", "patch"},
		"upgrade":   {"get", "create", "patch", "delete"},
		"uninstall": {"get", "delete"},
	} {
		needed, _ := rights.Requests(command, "infra", kinds)
		for _, k := range kinds {
			for _, verb := range verbs {
				require.True(t, slices.ContainsFunc(needed, func(r rights.Request) bool {
					return r.Verb == verb && r.Group == k.Group && r.Resource == k.Resource
				}), "%s: %s %v", command, verb, k)
			}
		}
	}

	for _, r := range rights.Table() {
		for _, name := range r.Commands {
			cmd, _, err := rootCommand(cli.New(cli.Streams{})).Find([]string{name})
			require.NoError(t, err)
			require.Equal(t, name, cmd.Name())
		}
	}
}
