// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/testenv"
)

// cksArguments are arguments of the commands of csccm cks, for a cluster demo that runs.
var cksArguments = map[string][]string{
	"cks list": nil, "cks versions": nil, "cks show": {"demo"}, "cks kubeconfig": {"demo"},
}

// cks adds the commands that talk to CloudStack alone.
func (e *exitCases) cks(t *testing.T) {
	t.Helper()
	cloud := testenv.NewCKS(t)
	cloud.Cluster(t, "demo", nil)
	good, err := os.ReadFile(cloud.File(t, testenv.Owner))
	require.NoError(t, err)
	config := func(name, text string) []string { return []string{"--cloud-config", e.file(t, "cks-"+name, text)} }
	text, wrong := e.file(t, "cks-text", "nothing\n"), e.file(t, "cks-wrong", "not the password\n")
	cases := map[string][]string{
		"no CloudStack":   config("unheard", "[Global]\napi-url = "+e.none+"/client/api\napi-key = a\nsecret-key = b\n"),
		"login refused":   {"--api-url", cloud.URL, "--admin-user", "admin", "--admin-password-file", wrong},
		"no file":         {"--cloud-config", e.dir + "/nosuch"},
		"bad ca-file":     config("noca", string(good)+"ca-file = "+text+"\n"),
		"blank in a key":  config("blank", "[Global]\napi-url = "+cloud.URL+"\napi-key = \"a b\"\nsecret-key = c\n"),
		"unknown project": config("noproject", string(good)+"project-id = no-such-project\n"),
		"no credentials":  {"--server", e.server},
		"fine":            config("good", string(good)),
	}
	for command, args := range cksArguments {
		for name, more := range cases {
			line := slices.Concat(args, more)
			e.add(name, command, line...)
		}
	}
}
