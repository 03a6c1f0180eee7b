// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exitcodes is the table of how every command of csccm ends in every case that applies to it. docs/exit-codes.md
// is generated from it, and tests run the program for each of its cells.
package exitcodes

import (
	"slices"

	"github.com/csccm/csccm/installer/engine/report"
)

// Row is one way to end.
type Row struct {
	Name     string // of the case, for tests; some commands end otherwise in the same case
	Code     int
	When     string   // the case, for people
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
	serviceChanges = []string{
		"cks create", "cks scale", "cks upgrade", "cks start", "cks stop", "cks delete",
		"cks versions add", "cks versions enable", "cks versions disable", "cks versions delete",
	}
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
	const (
		wrongFlags = "flags, arguments or a format of `-o` are wrong"
		noFile     = "a file that is named does not exist, cannot be read, or is not what is wanted: credentials, `ca-file`, chart, journal"
		blankKey   = "a key has a blank inside"
		badCA      = "the `ca-file` does not exist or holds no PEM certificate"
		noProject  = "the project does not exist, or the user does not see it"
		noCreds    = "there are no credentials, and nobody can be asked" //nolint:gosec // a text
		noCluster  = "no API server answers"
		noCloud    = "no CloudStack answers, or it refuses the login or the keys"
		noYes      = "something would be changed, nobody can be asked (no terminal, or `-o json` and `yaml`), and `--yes` is missing"
		saidNo     = "the question was answered with no; nothing was changed"
	)
	onCKS := slices.Concat(service, serviceChanges)
	undo := []string{"takeover --undo", "taint --undo", "migrate-rules --undo"}
	return []Row{
		{"fine", report.ExitOK, "done, nothing to do, or a dry run that found nothing in the way", with(with(cloud, with(alone, "version", "plan", "doctor", "support-bundle", "ui", "install", "template", "images", "test")...), onCKS...), Program},
		{"fine", report.ExitOK, "done, nothing to do, or a dry run that found nothing in the way", releases, OnACluster},
		{"fine", report.ExitOK, "done, nothing to do, or a dry run that found nothing in the way", []string{"status"}, Working},

		{"no cluster", report.ExitFailure, noCluster, with(releases, with(cloud, "install", "plan", "ui", "template", "images", "test")...), Program},
		{"no CloudStack", report.ExitFailure, noCloud, with(with(cloud, "install", "plan"), onCKS...), Program},
		{"login refused", report.ExitFailure, noCloud, with(onCKS, "install"), Program},
		{"login refused", report.ExitFailure, noCloud, []string{"rotate-keys"}, OnACluster},

		{"unknown project", report.ExitFailure, noProject, []string{"plan"}, Program},

		{"wrong flags", report.ExitUsage, wrongFlags, Commands(), Program},
		{"wrong format", report.ExitUsage, wrongFlags, without(Commands(), "", "completion", "cks"), Program},
		{"no file", report.ExitUsage, noFile, with(with(cloud, onCKS...), "install", "plan", "ui", "upgrade", "template", "images", "rotate-keys", "migrate-rules --undo", "cks iso"), Program},
		{"bad ca-file", report.ExitUsage, badCA, with(with(cloud, "install", "plan"), onCKS...), Program},
		{"blank in a key", report.ExitUsage, blankKey, with(with(cloud, "install", "plan", "rotate-keys"), onCKS...), Program},
		{"unknown project", report.ExitUsage, noProject, with(with(cloud, "install"), onCKS...), Program},
		{"unknown zone", report.ExitUsage, "the zone, the account or its domain does not exist", []string{"install"}, Program},
		{"unknown account", report.ExitUsage, "the zone, the account or its domain does not exist", []string{"install"}, Program},
		{"unknown domain", report.ExitUsage, "the zone, the account or its domain does not exist", []string{"install"}, Program},
		{"no credentials", report.ExitUsage, noCreds, with(with(cloud, "install", "plan"), onCKS...), Program},
		{"no release", report.ExitUsage, "there is no Helm release of that name", []string{"upgrade", "rollback", "rotate-keys", "test"}, Program},
		{"no terminal", report.ExitUsage, noYes, with(with(cloud, append(undo, testing...)...), serviceChanges...), Program},
		{"no terminal", report.ExitUsage, noYes, with(releases, "install"), OnACluster},
		{"no", report.ExitUsage, saidNo, with(with(cloud, append(undo, testing...)...), serviceChanges...), Program},
		{"no", report.ExitUsage, saidNo, with(releases, "install"), OnACluster},
		{"to do", report.ExitUsage, "something is to do, or a Service is refused, and `--detailed-exitcode` is given", []string{"plan"}, Program},

		{"failed", report.ExitCheckFailed, "a check failed, or nothing could be judged", []string{"doctor", "status"}, Program},
		{"failed", report.ExitCheckFailed, "a check failed, or nothing could be judged", testing, LoadBalancers},
		{"no cluster", report.ExitCheckFailed, noCluster, []string{"doctor", "status"}, Program},
		{"no CloudStack", report.ExitCheckFailed, noCloud, []string{"doctor", "status"}, Program},
		{"bad ca-file", report.ExitCheckFailed, badCA, []string{"doctor", "status"}, Program},
		{"blank in a key", report.ExitCheckFailed, blankKey, []string{"doctor", "status"}, Program},
		{"unknown project", report.ExitCheckFailed, noProject, []string{"doctor", "status"}, Program},
		{"refused", report.ExitCheckFailed, "a check or gate before the change failed, or consent is missing; nothing was changed", []string{"install", "taint", "takeover", "adopt", "cks scale", "cks upgrade"}, Program},
		{"refused", report.ExitCheckFailed, "a check or gate before the change failed, or consent is missing; nothing was changed", []string{"uninstall", "rotate-keys"}, OnACluster},

		{"warnings", report.ExitWarnings, "no check failed, there are warnings, and `--fail-on=warning` is given", []string{"doctor"}, Program},

		{"time-out", report.ExitTimeout, "`--timeout` is over, or the controller did not come up in time", Talking(), Timeouts},
		{"^C", report.ExitInterrupted, "interrupted by ^C or SIGTERM; the current step was finished and is in the journal", Talking(), Timeouts},
	}
}
