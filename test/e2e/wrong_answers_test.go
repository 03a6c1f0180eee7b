// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/simulator"
)

// TestInstallAsksAgainOnATerminal gives a wrong answer to each question first. None of them ends the run. In the end the
// person says no, and is told what was made; the next run goes on with that.
func TestInstallAsksAgainOnATerminal(t *testing.T) {
	t.Parallel()
	world := simulator.ExampleWorld()
	world.Domains = append(world.Domains, simulator.Domain{Path: "ROOT/tenants"})
	world.Zones = append(world.Zones, simulator.Zone{Name: "zone-2", PublicRanges: []string{"198.51.100.10-198.51.100.19"}})
	world.Accounts = append(world.Accounts, simulator.Account{Name: "plain", Role: "User", Users: []simulator.User{{Name: "plain", Password: "plain-word"}}})
	env := newClusterEnv(t, world)
	env.join(t, cp1, joined(worker1), joined(worker2))
	script := &transcript{b: env}
	const (
		url, admin = "URL of the CloudStack API:", "CloudStack administrator:"
		domain     = "Domain of the account that owns the cluster's VMs:"
		account    = "Account that owns the cluster's VMs:"
		clearLine  = "\x15"
	)
	install := append([]string{"install"}, processFlags...)
	screen, code := script.dialog(t, []answer{
		{"Credentials for the controller:", enter},
		{url, "http://127.0.0.1:1/client/api" + enter},
		{url, clearLine + env.cloud.URL + "/elsewhere" + enter},
		{url, clearLine + env.cloud.URL + enter},
		{admin, enter}, {"Domain of admin:", enter}, {"Password of admin:", "wrong-word" + enter},
		{admin, "plain" + enter}, {"Domain of plain:", enter}, {"Password of plain:", "plain-word" + enter},
		{admin, enter}, {"Domain of admin:", enter}, {"Password of admin:", adminPassword + enter},
		{domain, "ROOT/nosuch" + enter}, {domain, clearLine + "ROOT/tenants" + enter},
		{account, "nosuch" + enter}, {account, clearLine + "k8s" + enter}, {account, clearLine + "ROOT/k8s" + enter},
		{"Zone of the cluster's VMs:", down + enter},
		{"Do this in CloudStack?", enter},
		{"Go on?", "n" + enter},
	}, install...)
	if code != report.ExitUsage {
		t.Errorf("declined, it ended with %d:\n%s", code, screen)
	}
	// A prompt shows why it refuses the last answer, in place of the one before.
	shows(t, screen, "no CloudStack API answers at "+env.cloud.URL+"/elsewhere",
		`refuses the login of user "admin"`, `user "plain" is not an administrator`, `there is no domain "ROOT/nosuch"`,
		`there is no account "k8s" in domain ROOT/tenants (there is one in ROOT: type ROOT/k8s)`, "Do this in CloudStack? Yes", "Go on? No",
		`error: not confirmed: nothing was changed in the cluster. Made in CloudStack: user "kubeadmin" of account "k8s", domain ROOT`,
		"csccm uninstall --delete-user")
	made, err := env.cloud.Config("kubeadmin")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"wrong-word", "plain-word", made.APIKey, made.SecretKey} {
		if strings.Contains(script.text.String(), secret) {
			t.Errorf("a secret is on the screen:\n%s", screen)
		}
	}
	script.write(t, "install-wrong-answers.txt")
}
