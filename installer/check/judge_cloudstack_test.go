// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/provider"
)

func config(c cloudstack.Config) func(*Facts) { return func(f *Facts) { f.Config = c } }

func TestEndpoint(t *testing.T) {
	t.Parallel()
	at := config(cloudstack.Config{APIURL: "https://cs/client/api"})
	release := func(c cloudstack.Capabilities) func(*Facts) { return func(f *Facts) { f.Capabilities = &c } }
	for v, want := range map[string]expect{
		"4.22.0.0": {OK, "CloudStack 4.22.0.0 at https://cs/client/api", nil}, "4.15.2.0": {"", "too old", nil},
		"4.23.0.0": {Warning, "newer than the tested 4.22", nil}, "main": {OK, "", nil},
	} {
		want.of(t, "CS-001", at, release(cloudstack.Capabilities{Version: v}))
	}
	expect{OK, "its release is not shown", nil}.of(t, "CS-001", at, failing(Capabilities, csError(cloudstack.KindAuth, "unable to verify")))
	expect{OK, "its release is not shown", nil}.of(t, "CS-001", at)
	expect{"", "https://cs/client/api: ", nil}.of(t, "CS-001", at, failing(Capabilities, csError(cloudstack.KindTransient, "connection refused")))
}

func TestRole(t *testing.T) {
	t.Parallel()
	apis := func(names ...string) func(*Facts) { return func(f *Facts) { f.APIs = sets.New(names...) } }
	expect{OK, "1 commands", nil}.of(t, "CS-002", apis("listZones"))
	expect{"", "401", nil}.of(t, "CS-002", failing(APIs, csError(cloudstack.KindAuth, "401")))
	expect{OK, "accepted", nil}.of(t, "CS-002", failing(APIs, csError(cloudstack.KindNotPermitted, "")))
	expect{Warning, "administrator", nil}.of(t, "CS-002", apis("createRole"))
	expect{Unknown, "boom", nil}.of(t, "CS-002", failing(Capabilities, errors.New("boom")))

	all := func(without ...string) func(*Facts) {
		return func(f *Facts) { f.APIs = sets.New(provider.RequiredCommands...).Delete(without...) }
	}
	expect{OK, fmt.Sprintf("all %d", len(provider.RequiredCommands)), nil}.of(t, "CS-003", all())
	lesser := expect{Warning, "createTags", nil}.of(t, "CS-003", all("createTags"))
	require.Equal(t, map[string]string{"without createTags": provider.Losses["createTags"]}, lesser.Evidence)
	expect{"", "the role refuses assignToLoadBalancerRule, createTags", nil}.of(t, "CS-003", all("assignToLoadBalancerRule", "createTags"))
	expect{Unknown, "listApis", nil}.of(t, "CS-003", failing(APIs, csError(cloudstack.KindNotPermitted, "")))
	expect{Unknown, "boom", nil}.of(t, "CS-003", failing(APIs, errors.New("boom")))
}

func TestScope(t *testing.T) {
	t.Parallel()
	zone := func(name string) func(*Facts) {
		return func(f *Facts) { f.Config.Zone, f.Zones = name, []cloudstack.Zone{{ID: "z1", Name: "zone-1"}} }
	}
	expect{OK, "3 VMs", nil}.of(t, "CS-004", threeVMs)
	expect{OK, "", nil}.of(t, "CS-004", threeVMs, zone("ZONE-1"))
	expect{"", `zone "mars" does not exist; there are: zone-1`, nil}.of(t, "CS-004", threeVMs, zone("mars"))
	expect{OK, "", nil}.of(t, "CS-004", threeVMs, zone("mars"), failing(Zones, csError(cloudstack.KindNotPermitted, "")))
	expect{"", `project "p" not found`, nil}.of(t, "CS-004", failing(Project, &inventory.ProjectError{Project: "p"}))
	expect{"", "no VMs in", nil}.of(t, "CS-004", ofVMs(snapshot()))
	expect{"", "not a member", nil}.of(t, "CS-004", failing(VMs, csError(cloudstack.KindNotPermitted, "not a member")))
	expect{Unknown, "later", nil}.of(t, "CS-004", failing(VMs, csError(cloudstack.KindTransient, "later")))
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	network := func(vpc string, services ...string) func(*Facts) {
		n := cloudstack.Network{ID: "net-1", Name: "k8s-net", VPCID: vpc, Services: map[string]map[string]string{}}
		for _, s := range services {
			n.Services[s] = nil
		}
		return func(f *Facts) { f.Networks = []cloudstack.Network{n} }
	}
	nodes := ofNodes(nodeWith("a"), nodeWith("b"))
	expect{OK, "k8s-net", nil}.of(t, "CS-005", threeVMs, nodes, network("", "Lb", "Firewall"))
	expect{OK, "k8s-net", nil}.of(t, "CS-005", threeVMs, nodes, network("vpc", "Lb", "NetworkACL"))
	expect{"", "1 network", []string{"Network k8s-net: of 2 nodes: its offering lacks Lb"}}.of(t, "CS-005", threeVMs, nodes, network("", "Firewall"))
	expect{"", "", []string{"Network k8s-net: lacks Firewall"}}.of(t, "CS-005", threeVMs, nodes, network("", "Lb"))
	expect{"", "", []string{"Network k8s-net: lacks NetworkACL"}}.of(t, "CS-005", threeVMs, nodes, network("vpc", "Lb"))
	expect{"", "", []string{"Network net-1: of 2 nodes is not visible"}}.of(t, "CS-005", threeVMs, nodes)
	expect{Skipped, "", nil}.of(t, "CS-005", threeVMs)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	expect{Skipped, "no cloud-config", nil}.of(t, "CS-007")
	expect{OK, "https://cloud", nil}.of(t, "CS-007", config(cloudstack.Config{APIURL: "https://cloud/client/api"}))
	expect{OK, "http://127.0.0.1", nil}.of(t, "CS-007", config(cloudstack.Config{APIURL: "http://127.0.0.1:8080/client/api"}))
	expect{OK, "https://cloud", nil}.of(t, "CS-007", config(cloudstack.Config{APIURL: "https://cloud", CAFile: "x"}))
	expect{"", "any certificate", nil}.of(t, "CS-007", config(cloudstack.Config{APIURL: "https://cloud", CAFile: "x", SSLNoVerify: true}))
}

func wrote(ago time.Duration, level byte, message string, values map[string]string) podlog.Line {
	return podlog.Line{At: now.Add(-ago), Level: level, Source: "x.go:1", Message: message, Values: values}
}

func failedWith(text string) map[string]string { return map[string]string{"err": text} }

func ofLogs(logs ...Log) func(*Facts) { return func(f *Facts) { f.Logs = logs } }

func TestContact(t *testing.T) {
	t.Parallel()
	const lookup = "cloudstack listVirtualMachines: cannot reach the API: dial tcp: lookup cs: no such host"
	can, cannot := wrote(30*time.Minute, 'I', contactMade, nil), wrote(time.Minute, 'E', contactFailed, failedWith(lookup))
	failed := wrote(4*time.Minute, 'E', "Sync failed", failedWith(lookup))
	again := func(ago time.Duration) podlog.Line {
		return wrote(ago, 'I', contactAgain, map[string]string{"after": "1m2s"})
	}
	waits, used := wrote(time.Minute, 'I', configWaits, map[string]string{"key": "zone"}), wrote(time.Minute, 'I', configUsed, nil)
	fine := expect{OK, "no call fails", nil}
	for name, tt := range map[string]struct {
		lines []podlog.Line
		want  expect
	}{
		"a changed file":                         {[]podlog.Line{can, waits, used}, expect{"", "the controller still works with the old zone", []string{"Pod p: read the cloud-config's zone"}}},
		"the file is again what it was":          {[]podlog.Line{can, waits, used, used}, expect{OK, "", nil}},
		"an empty log":                           {nil, expect{Unknown, "empty", nil}},
		"contact":                                {[]podlog.Line{can}, fine},
		"nothing about CloudStack":               {[]podlog.Line{wrote(time.Minute, 'I', "hello", nil)}, fine},
		"contact lost":                           {[]podlog.Line{can, cannot}, expect{"", "no such host", []string{"Pod p: 1m0s ago"}}},
		"contact after failure":                  {[]podlog.Line{cannot, wrote(0, 'I', contactMade, nil)}, fine},
		"over":                                   {[]podlog.Line{can, failed, again(3 * time.Minute)}, fine},
		"began during the outage":                {[]podlog.Line{failed, again(3 * time.Minute), wrote(3*time.Minute, 'I', contactMade, nil)}, fine},
		"lost again":                             {[]podlog.Line{failed, again(3 * time.Minute), cannot}, expect{"", "no such host", []string{"Pod p: 1m0s ago"}}},
		"an old outage":                          {[]podlog.Line{wrote(15*time.Minute, 'E', "Sync failed", failedWith(lookup)), again(14 * time.Minute)}, fine},
		"the failures are in lines not read":     {[]podlog.Line{again(time.Minute)}, fine},
		"an old failure":                         {[]podlog.Line{wrote(20*time.Minute, 'E', "Sync failed", failedWith(lookup))}, fine},
		"an API server that cannot be reached":   {[]podlog.Line{wrote(time.Minute, 'E', "lock", failedWith("Get https://10.96.0.1: connect: connection refused"))}, expect{OK, "", nil}},
		"keys that are refused at the beginning": {[]podlog.Line{wrote(time.Minute, 'E', contactFailed, map[string]string{"err": "cloudstack listZones: 401", "remedy": "check api-key"})}, expect{"", "401", []string{"Pod p: 1m0s ago"}}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); tt.want.of(t, "CS-006", ofLogs(Log{"p", tt.lines})) })
	}
	expect{Skipped, "no Pod", nil}.of(t, "CS-006")
	// What one Pod reaches says nothing of another.
	expect{"", "no such host", []string{"Pod a: 4m0s ago"}}.of(t, "CS-006", ofLogs(Log{"a", []podlog.Line{failed}}, Log{"b", []podlog.Line{can, failed, again(time.Minute)}}))
}

// The check goes by the controller's own words.
func TestContactWords(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../pkg/provider/contact.go")
	require.NoError(t, err)
	for _, words := range []string{contactMade, contactFailed, contactAgain} {
		require.Contains(t, string(source), strconv.Quote(words))
	}
}
