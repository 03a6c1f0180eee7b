// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
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

// Every wrong answer asks its own question again, says what is wrong with it, and ends nothing.
func TestWizardAsksAgain(t *testing.T) {
	t.Parallel()
	e := newEnvOf(t, wizardWorld(), "tenants/"+testenv.Owner, demoNodes()...)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>It works!</html>"))
	}))
	t.Cleanup(page.Close)
	e.Answers(
		"1", // an administrator's login
		"cloud.example.org", "http://127.0.0.1:1/client/api", page.URL+"/client/api", e.cloud.URL,
		"", "", "wrong-canary", // admin in ROOT
		"plain", "ROOT", "password", // who is no administrator
		"", "ROOT/nosuch", "password",
		"", "", "password",
		"zone-9", "zone-1",
		"nosuch", "ROOT/nosuch/k8s", "project/nosuch", "k8s", "plain", "", // the owner of the VMs is the default
		"yes", "yes",
	)
	e.install(t, Config{})
	said := e.Stderr.String()
	for _, want := range []string{
		"must begin with http:// or https://",
		"no CloudStack API answers at http://127.0.0.1:1/client/api: ",
		"no CloudStack API answers at " + page.URL + "/client/api: got a web page (HTML) in place of the API",
		`refuses the login of user "admin" in domain "ROOT"`,
		`user "plain" is not an administrator`,
		`refuses the login of user "admin" in domain "ROOT/nosuch"`,
		`"zone-9" is none of the choices`,
		"Account that owns the cluster's VMs [ROOT/tenants/k8s]",
		`there is no account "nosuch" in domain ROOT`,
		`there is no domain "ROOT/nosuch" that this administrator can see (name one of these with --domain: ROOT, ROOT/tenants)`,
		`there is no project "nosuch" that these credentials can see`,
		`there is no account "k8s" in domain ROOT (there is one in ROOT/tenants: --domain ROOT/tenants)`,
		"3 of 3 nodes have no VM in account plain of domain ROOT, zone zone-1",
		`create user "kubeadmin" in account "k8s" of domain ROOT/tenants`,
		"Secret      create kube-system/cloudstack-secret",
		"Node        demo-worker-1 is initialised by a taint (PreferNoSchedule), first",
	} {
		_, rest, found := strings.Cut(said, want)
		require.True(t, found, "%q is not in, or not after what comes before it:\n%s", want, e.Stderr.String())
		said = rest
	}
	require.Equal(t, 3, strings.Count(e.Stderr.String(), "FAIL Logging in to CloudStack at "+e.cloud.URL), "the last login is a good one:\n%s", e.Stderr.String())
	require.Equal(t, "zone-1", e.config(t).Zone)
	require.Contains(t, e.Stdout.String(), "--domain ROOT/tenants --account k8s --zone zone-1 --yes")
	require.Equal(t, 3, e.initialised(t))
	require.Equal(t, 1, e.cloud.Ledger().Count("createUser"))
	e.requireNoSecrets(t, "canary", "password\n")
}

// Keys that CloudStack does not take are asked for again, and so is one with a blank inside. Blanks around them are removed.
func TestWizardAsksForKeysAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	k := e.keys(t).Cloud
	e.Answers("2", e.cloud.URL, "api canary", "api-canary", "secret-canary", " "+k.APIKey, k.SecretKey+"\t", "yes")
	e.install(t, Config{})
	require.Contains(t, e.Stderr.String(), "API key has blanks or control characters in it")
	require.Contains(t, e.Stderr.String(), "does not accept the API keys")
	require.Equal(t, k.APIKey, e.config(t).APIKey)
	require.Equal(t, k.SecretKey, e.config(t).SecretKey)
	e.requireNoSecrets(t, "canary")
}

// What is wrong with a flag ends the run: nobody was asked for it.
func TestWizardLeavesFlagsAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Answers("", "", "password", "k8s")
	err := e.installer(t, Config{Source: SourceAdmin, Cloud: cloudstack.Config{Zone: "zone-9", APIURL: e.cloud.URL}}).Run(t.Context())
	require.ErrorContains(t, err, `there is no zone "zone-9"`)
	require.Contains(t, e.Stderr.String(), "ok   Logging in to CloudStack at "+e.cloud.URL, "the login was a good one")
}

// A no says what was made before it, and how to remove it; at the first question that is nothing.
func TestWizardDeclined(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []string
		says    string
		made    string
	}{
		"before the user is made": {[]string{"no"}, "nothing was changed in the cluster: not confirmed", ""},
		"after that": {
			[]string{"yes", "no"}, "nothing was changed in the cluster: not confirmed",
			`Made in CloudStack: user "kubeadmin" of account "k8s", domain ROOT; the next run goes on with it, and csccm uninstall --delete-user`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.Answers(append([]string{"1", e.cloud.URL, "", "", "password", "k8s"}, tc.answers...)...)
			err := e.installer(t, Config{}).Run(t.Context())
			require.EqualError(t, err, tc.says)
			testenv.RequireRefusal(t, err, tc.says, "--yes", report.ExitUsage)
			require.Contains(t, e.Stderr.String(), tc.made)
			require.Equal(t, tc.made != "", e.cloud.Ledger().Count("createUser") == 1)
			require.Zero(t, e.Releases.Applied)
		})
	}
}
