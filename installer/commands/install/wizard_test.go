// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/simulator"
)

// wizardWorld has the nodes' VMs in an account of another domain than the administrator's, and two zones.
func wizardWorld() *simulator.World {
	w := simulator.ExampleWorld()
	w.Domains = append(w.Domains, simulator.Domain{Path: "ROOT/tenants"})
	w.Zones = append(w.Zones, simulator.Zone{Name: "zone-2", PublicRanges: []string{"198.51.100.10-198.51.100.19"}})
	for i := range w.Accounts {
		if w.Accounts[i].Name == "k8s" {
			w.Accounts[i].Domain = "ROOT/tenants"
		}
	}
	w.Accounts = append(w.Accounts, simulator.Account{
		Name: "plain", Role: "User", Users: []simulator.User{{Name: "plain", Password: "password"}},
	})
	return w
}

func (b *bench) wizard(t *testing.T, answers ...string) *Installer {
	t.Helper()
	in := b.installer(t, Options{})
	in.Interactive = true
	in.Prompt = prompt.NewLines(strings.NewReader(strings.Join(answers, "\n")+"\n"), &b.err)
	return in
}

// Every wrong answer asks its own question again, says what is wrong with it, and ends nothing.
func TestWizardAsksAgain(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, wizardWorld(), "tenants/k8s-owner", demoNodes()...)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>It works!</html>"))
	}))
	t.Cleanup(page.Close)
	in := b.wizard(t,
		"1", // an administrator's login
		"cloud.example.org", "http://127.0.0.1:1/client/api", page.URL+"/client/api", b.url,
		"", "", "wrong-canary", // admin in ROOT
		"plain", "ROOT", "password", // who is no administrator
		"", "ROOT/nosuch", "password",
		"", "", "password",
		"ROOT/nosuch", "ROOT",
		"nosuch", "project/nosuch", "k8s", "ROOT/tenants/k8s",
		"zone-9", "zone-1",
		"yes", "yes",
	)
	require.NoError(t, in.Run(t.Context()), b.err.String())
	said := b.err.String()
	for _, want := range []string{
		"it must start with https:// or http://",
		"no CloudStack API answers at http://127.0.0.1:1/client/api: ",
		"no CloudStack API answers at " + page.URL + "/client/api: got a web page (HTML) in place of the API",
		`refuses the login of user "admin" in domain "ROOT"`,
		`user "plain" is not an administrator`,
		`refuses the login of user "admin" in domain "ROOT/nosuch"`,
		`there is no domain "ROOT/nosuch" that this administrator can see (name one of these with --domain: ROOT, ROOT/tenants)`,
		`there is no account "nosuch" in domain ROOT`,
		`there is no project "nosuch" that these credentials can see`,
		`there is no account "k8s" in domain ROOT (there is one in ROOT/tenants: type ROOT/tenants/k8s)`,
		`"zone-9" is none of the choices`,
		`create user "kubeadmin" in account "k8s" of domain ROOT/tenants`,
	} {
		_, rest, found := strings.Cut(said, want)
		require.True(t, found, "%q is not in, or not after what comes before it:\n%s", want, b.err.String())
		said = rest
	}
	require.Equal(t, 3, strings.Count(b.err.String(), "FAIL Logging in to CloudStack at "+b.url), "the last login is a good one:\n%s", b.err.String())
	require.Equal(t, "zone-1", in.config.Zone)
	require.Contains(t, b.out.String(), "--domain ROOT/tenants --account k8s --zone zone-1 --yes")
	require.Equal(t, 3, b.initialised(t))
	require.Equal(t, 1, b.sim.Ledger().Count("createUser"))
	b.requireNoSecrets(t, "canary", "password\n")
}

// Keys that CloudStack does not take are asked for again, and so is one with a blank inside.
func TestWizardAsksForKeysAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	k := b.keys(t).Credentials.Keys
	in := b.wizard(t, "2", b.url, "api canary", "api-canary", "secret-canary", k.APIKey, k.SecretKey, "yes")
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), "API key has blanks or control characters in it")
	require.Contains(t, b.err.String(), "does not accept the API keys")
	b.requireNoSecrets(t, "canary")
}

// What is wrong with a flag ends the run: nobody was asked for it.
func TestWizardLeavesFlagsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	in := b.wizard(t, "", "", "password", "k8s")
	in.Options.Credentials.Source, in.Options.Credentials.APIURL, in.Options.Zone = SourceAdmin, b.url, "zone-9"
	err := in.Run(t.Context())
	require.ErrorContains(t, err, `there is no zone "zone-9"`)
	require.Contains(t, b.err.String(), "ok   Logging in to CloudStack at "+b.url, "the login was a good one")
}

// A no says what was made before it, and how to remove it; at the first question that is nothing.
func TestWizardDeclined(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []string
		says    string
		made    int
	}{
		"before the user is made": {[]string{"no"}, "nothing was changed: not confirmed", 0},
		"after that": {
			[]string{"yes", "no"},
			`not confirmed: nothing was changed in the cluster. Made in CloudStack: user "kubeadmin" of account "k8s", domain ROOT`, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, demoNodes()...)
			err := b.wizard(t, append([]string{"1", b.url, "", "", "password", "k8s"}, tc.answers...)...).Run(t.Context())
			require.EqualError(t, err, tc.says)
			var e *report.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, report.ExitUsage, e.ExitCode())
			require.Equal(t, tc.made > 0, strings.Contains(e.Remedy(), "csccm uninstall --delete-user"))
			require.Equal(t, tc.made, b.sim.Ledger().Count("createUser"))
			require.Zero(t, b.helm.applied)
		})
	}
}
