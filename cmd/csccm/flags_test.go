// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
)

// valueOf is a value that a flag of a type takes; "x" where the type is not named.
var valueOf = map[string]string{"duration": "1s", "int": "1", "int64": "1", "float32": "1", "ip": "10.0.0.1", "auto|always|never": "never"}

// A flag with an optional value would leave its value to the command as an argument, such as the name of a cluster.
func TestFlagsTakeTheirValue(t *testing.T) {
	t.Parallel()
	walked := 0
	for i, c := range everyCommand(newRootCommand(cli.Streams{Getenv: environment()})) {
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
			fresh := everyCommand(newRootCommand(cli.Streams{Getenv: environment()}))[i]
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
}

// --dry-run is one switch with one meaning.
func TestDryRunMeansTheSameEverywhere(t *testing.T) {
	t.Parallel()
	found := 0
	for _, c := range everyCommand(newRootCommand(cli.Streams{Getenv: environment()})) {
		if flag := c.Flags().Lookup("dry-run"); flag != nil {
			found++
			require.Equal(t, cli.DryRunUsage, flag.Usage, c.CommandPath())
			require.Equal(t, "bool", flag.Value.Type(), c.CommandPath())
		}
	}
	require.Greater(t, found, 15)
}
