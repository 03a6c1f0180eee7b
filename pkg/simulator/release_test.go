// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
)

// patchReleases are the patch releases that differ from the minor releases before and after them.
var patchReleases = []string{"4.19.2", "4.20.1"}

func TestReleases(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"4.16", "4.17", "4.18", "4.19", "4.20", "4.21", "4.22"}, Releases())
	for version, want := range map[string]string{
		"4.16":              "4.16.0.0",
		"4.19.2":            "4.19.2.0",
		"4.22.0.0":          "4.22.0.0",
		"4.22.0.0-SNAPSHOT": "4.22.0.0-SNAPSHOT",
		"4.22.1":            "4.22.1.0",
	} {
		got, err := FullVersion(version)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}

	for _, version := range []string{"", "4", "4.15", "4.23", "5.0", "3.0.1", "latest", "4.x"} {
		_, err := FullVersion(version)
		require.EqualError(t, err, `CloudStack "`+version+`": there are 4.16 to 4.22`)
	}

	_, err := New(Options{World: &World{Version: "4.15.1", Zones: ExampleWorld().Zones}})
	require.EqualError(t, err, `world: CloudStack "4.15.1": there are 4.16 to 4.22`)
}

// Each line of the table names a difference: the previous release lacks it, the release has it, and the newest release
// shows it.
func TestDifferencesOfReleases(t *testing.T) {
	t.Parallel()
	newest, err := catalogue.Load()
	require.NoError(t, err)
	field := func(cat *catalogue.Catalogue, kind, name string) bool {
		command := catalogue.AnswerObjects[kind].Command
		require.NotNil(t, cat.ByName[command], command)
		return slices.ContainsFunc(cat.Shapes[cat.ByName[command].Shape],
			func(f catalogue.Field) bool { return f.Name == name })
	}

	for i, d := range catalogue.Differences {
		since, ok := catalogue.ReadRelease(d.Since)
		require.True(t, ok, d.Since)
		assert.True(t, catalogue.OldestRelease.Before(since) && len(d.Commands)+len(d.Params)+len(d.Fields) > 0, d.What)
		if i > 0 {
			before, _ := catalogue.ReadRelease(catalogue.Differences[i-1].Since)
			assert.False(t, since.Before(before), "%s: the table is by release", d.What)
		}

		for _, version := range append(Releases(), patchReleases...) {
			r, err := catalogue.ParseRelease(version)
			require.NoError(t, err)
			cat, has := newest.At(r), !r.Before(since)
			for _, command := range d.Commands {
				assert.Equal(t, has, cat.ByName[command] != nil, "%s: %s", version, command)
			}

			for command, params := range d.Params {
				for _, p := range params {
					mark, _ := catalogue.ReadRelease(newest.ByName[command].Param(p).Since)
					require.Equal(t, since, mark, "%s %s: the catalogue says otherwise", command, p)
					spec := cat.ByName[command]
					assert.Equal(t, has, spec != nil && spec.Param(p) != nil, "%s: %s %s", version, command, p)
				}
			}

			for kind, fields := range d.Fields {
				for _, f := range fields {
					require.True(t, field(newest, kind, f), "no answer has %s of %s", f, kind)
					assert.Equal(t, has, field(cat, kind, f), "%s: %s of %s", version, f, kind)
				}
			}
		}
	}
}

// releaseEnv starts the world of balancer tests as a given release, with a rule.
func releaseEnv(t *testing.T, version string) *env {
	t.Helper()
	w := readWorld(t, "balancer.yaml")
	w.Version = version
	return start(t, Options{World: w}).play(`
		let create d/a createLoadBalancerRule publicipid={ips:203.0.113.8} name=lb algorithm=roundrobin privateport=30080 openfirewall=false
		create publicport=80 protocol=tcp cidrlist=10.0.0.0/8 > rule`)
}

// TestAnswersOfReleases checks how each release answers clients.
func TestAnswersOfReleases(t *testing.T) {
	t.Parallel()
	for _, version := range append(Releases(), patchReleases...) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			h := releaseEnv(t, version)
			r, err := catalogue.ParseRelease(version)
			require.NoError(t, err)
			full, err := FullVersion(version)
			require.NoError(t, err)
			since := func(release, now, before string) string {
				if r.Lacks(release) {
					return before
				}
				return now
			}
			has := func(release string) bool { return !r.Lacks(release) }
			h.set("version", full, "created", since("4.18", "10.0.0.0/8", "-"), "updated",
				since("4.22", "192.168.0.0/16", since("4.18", "10.0.0.0/8", "-")),
				"named", since("4.22", "0", "4"), "add", since("4.19", "200", "530"), "tls",
				since("4.22", "200", "431"))
			h.play(`
				d/a listCapabilities => cloudstackversion={version}
				# The sources of a rule: taken since 4.18, changed since 4.22, ignored before.
				d/a listLoadBalancerRules id={rule} => cidrlist={created}
				d/a updateLoadBalancerRule id={rule} algorithm=source cidrlist=192.168.0.0/16
				d/a listLoadBalancerRules id={rule} => cidrlist={updated}
				# A name filters networks since 4.22, and shows all before.
				d/a listNetworks name=no-such-network => count {named}
				create publicport=443 protocol=ssl => {tls}
				admin listApis name=addVirtualMachinesToKubernetesCluster => {add}
				admin listApis name=createLoadBalancerRule => /api.0.name=createLoadBalancerRule`)
			assert.Equal(t, has("4.18"), strings.Contains(h.last.raw, `"name":"cidrlist"`))

			// Commands that do not exist are unknown, with or without keys.
			a := h.call("d/a", "addVirtualMachinesToKubernetesCluster", "id", nowhere, "virtualmachineids", nowhere)
			b := h.call("d/a", "noSuchCommand")
			assert.Equal(t, has("4.19"), a.status != b.status || a.key != b.key, a.raw)

			network := h.ok(h.call("d/a", "listNetworks")).raw
			assert.Equal(t, has("4.22"), strings.Contains(network, catalogue.TLSCapability))
			assert.Equal(t, has("4.22"), strings.Contains(network, "tcp-proxy, ssl"))
			assert.Contains(t, network, "tcp-proxy")
			for field, release := range map[string]string{
				"listVirtualMachines => deleteprotection": "4.20",
				"listVirtualMachines => templatetype":     "4.19",
				"listZones => routedmodeenabled":          "4.20.1",
				"listVirtualMachines => domainpath":       "4.19.2",
				"listNetworks => domainpath":              "4.19",
				"listPublicIpAddresses => forprovider":    "4.21",
			} {
				h.play("d/a " + field + since(release, "~", "=-"))
			}
		})
	}
}

func TestSupportPolicyIsFresh(t *testing.T) {
	t.Parallel()
	const page = "../../docs/support-policy.md"
	stale, err := pages.Refresh(page, []pages.Part{{Name: DifferencesPart, Want: DifferencesTable()}}, false)
	require.NoError(t, err)
	assert.Empty(t, stale, "go generate ./pkg/simulator")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, strings.Join(strings.Fields(string(text)), " "),
		Releases()[0]+" to "+Releases()[len(Releases())-1])
}
