// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exitcodes is the table of how every command of csccm ends in every case that applies to it.
// Tests run the program for each of its cells.
package exitcodes

import (
	"slices"

	"github.com/csccm/csccm/installer/engine/report"
)

// Row is one way to end.
type Row struct {
	Name     string // of the case, for tests; some commands end otherwise in the same case
	Code     int
	Commands []string // without "csccm"; "" is csccm itself
	Test     Test     // that runs each of the commands
}

// Test names a test and its folder.
type Test struct{ Name, Dir string }

// The tests that run the program. Program needs no API server; OnACluster has a real one.
var (
	Program    = Test{"TestExitCodeTable", "cmd/csccm"}
	Timeouts   = Test{"TestExitCodesOfTimeouts", "cmd/csccm"}
	OnACluster = Test{"TestExitCodesOnACluster", "test/e2e"}
	Working    = Test{"TestCSCCM", "test/e2e"}

	LoadBalancers = Test{"TestLoadBalancerTestEnds", "test/e2e"}
)

// The commands, by what they need.
var (
	// alone work without a cluster.
	alone = []string{
		"", "completion", "cks", "cks iso",
	}
	// looking read cluster and CloudStack, and report.
	looking = []string{"doctor", "status", "support-bundle", "ui", "plan"}
	// releases change a release that is there.
	releases = []string{"upgrade", "rollback", "rotate-keys", "uninstall"}
	// cloud change CloudStack or nodes with the controller's credentials.
	cloud = []string{"migrate-rules", "takeover", "adopt", "taint"}
	// service read from CloudStack alone, and serviceChanges change it.
	service        = []string{"cks list", "cks show", "cks kubeconfig", "cks versions"}
	serviceChanges = []string{"cks create", "cks scale", "cks upgrade", "cks start", "cks stop", "cks delete"}
	// testing uses a controller that is there.
	testing = []string{"test"}
)

// Talking are the commands that talk to a cluster and wait for it.
func Talking() []string {
	return slices.Concat([]string{"install", "template", "images"}, releases, looking, cloud, service, serviceChanges, testing)
}

// Commands are all commands.
func Commands() []string { return slices.Concat(Talking(), alone, []string{"version"}) }

func without(all []string, those ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(c string) bool { return slices.Contains(those, c) })
}

func with(all []string, more ...string) []string { return slices.Concat(all, more) }

// Rows returns the table.
func Rows() []Row { //nolint:funlen // a table
	onCKS := slices.Concat(service, serviceChanges)
	undo := []string{"takeover --undo", "taint --undo", "migrate-rules --undo"}
	return []Row{
		{"fine", report.ExitOK, with(with(cloud, with(alone, "version", "plan", "doctor", "support-bundle", "ui", "install", "template", "images", "test")...), onCKS...), Program},
		{"fine", report.ExitOK, releases, OnACluster},
		{"fine", report.ExitOK, []string{"status"}, Working},

		{"no cluster", report.ExitFailure, with(releases, with(cloud, "install", "plan", "ui", "template", "images", "test")...), Program},
		{"no CloudStack", report.ExitFailure, with(with(cloud, "install", "plan"), onCKS...), Program},
		{"login refused", report.ExitFailure, with(onCKS, "install"), Program},
		{"login refused", report.ExitFailure, []string{"rotate-keys"}, OnACluster},

		{"unknown project", report.ExitFailure, []string{"plan"}, Program},

		{"wrong flags", report.ExitUsage, Commands(), Program},
		{"wrong format", report.ExitUsage, without(Commands(), "", "completion", "cks"), Program},
		{"no file", report.ExitUsage, with(with(cloud, onCKS...), "install", "plan", "ui", "upgrade", "template", "images", "rotate-keys", "migrate-rules --undo", "cks iso"), Program},
		{"bad ca-file", report.ExitUsage, with(with(cloud, "install", "plan"), onCKS...), Program},
		{"blank in a key", report.ExitUsage, with(with(cloud, "install", "plan", "rotate-keys"), onCKS...), Program},
		{"unknown project", report.ExitUsage, with(with(cloud, "install"), onCKS...), Program},
		{"unknown zone", report.ExitUsage, []string{"install"}, Program},
		{"unknown account", report.ExitUsage, []string{"install"}, Program},
		{"unknown domain", report.ExitUsage, []string{"install"}, Program},
		{"no credentials", report.ExitUsage, with(with(cloud, "install", "plan"), onCKS...), Program},
		{"no release", report.ExitUsage, []string{"upgrade", "rollback", "rotate-keys", "test"}, Program},
		{"no terminal", report.ExitUsage, with(with(cloud, append(undo, testing...)...), serviceChanges...), Program},
		{"no terminal", report.ExitUsage, with(releases, "install"), OnACluster},
		{"no", report.ExitUsage, with(with(cloud, append(undo, testing...)...), serviceChanges...), Program},
		{"no", report.ExitUsage, with(releases, "install"), OnACluster},
		{"to do", report.ExitUsage, []string{"plan"}, Program},

		{"failed", report.ExitCheckFailed, []string{"doctor", "status"}, Program},
		{"failed", report.ExitCheckFailed, testing, LoadBalancers},
		{"no cluster", report.ExitCheckFailed, []string{"doctor", "status"}, Program},
		{"no CloudStack", report.ExitCheckFailed, []string{"doctor", "status"}, Program},
		{"bad ca-file", report.ExitCheckFailed, []string{"doctor", "status"}, Program},
		{"blank in a key", report.ExitCheckFailed, []string{"doctor", "status"}, Program},
		{"unknown project", report.ExitCheckFailed, []string{"doctor", "status"}, Program},
		{"refused", report.ExitCheckFailed, []string{"install", "taint", "takeover", "adopt", "cks scale", "cks upgrade"}, Program},
		{"refused", report.ExitCheckFailed, []string{"uninstall", "rotate-keys"}, OnACluster},

		{"warnings", report.ExitWarnings, []string{"doctor"}, Program},

		{"time-out", report.ExitTimeout, Talking(), Timeouts},
		{"^C", report.ExitInterrupted, Talking(), Timeouts},
	}
}
