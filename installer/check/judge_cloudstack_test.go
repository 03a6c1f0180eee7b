// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/provider"
)

func config(c cloudstack.Config) func(*Facts) { return func(f *Facts) { f.Config = c } }

// The transcripts have what is well, and a fault of each check.
func TestCloudStack(t *testing.T) {
	t.Parallel()
	at := config(cloudstack.Config{APIURL: "https://cs/client/api"})
	for v, want := range map[string]expect{
		"4.15.2.0": {"", "too old", nil}, "4.23.0.0": {Warning, "newer than the tested 4.22", nil}, "main": {OK, "", nil},
	} {
		want.of(t, "CS-001", at, func(f *Facts) { f.Capabilities = &cloudstack.Capabilities{Version: v} })
	}
	expect{OK, "its release is not shown", nil}.of(t, "CS-001", at, failing(Capabilities, csError(cloudstack.KindAuth, "unable to verify")))
	expect{OK, "its release is not shown", nil}.of(t, "CS-001", at)
	expect{"", "https://cs/client/api: ", nil}.of(t, "CS-001", at, failing(Capabilities, csError(cloudstack.KindTransient, "connection refused")))
	expect{"", "is broken", nil}.of(t, "CS-001", func(f *Facts) { f.NoCloudErr = errors.New("the cloud-config is broken") })
	expect{Skipped, "because", nil}.of(t, "CS-001", func(f *Facts) { f.NoCloud = "because" })

	apis := func(names ...string) func(*Facts) { return func(f *Facts) { f.APIs = sets.New(names...) } }
	expect{"", "401", nil}.of(t, "CS-002", failing(APIs, csError(cloudstack.KindAuth, "401")))
	expect{OK, "accepted", nil}.of(t, "CS-002", failing(APIs, csError(cloudstack.KindNotPermitted, "")))
	expect{Warning, "administrator", nil}.of(t, "CS-002", apis("createRole"))
	expect{Unknown, "boom", nil}.of(t, "CS-002", failing(Capabilities, errors.New("boom")))

	all := func(without ...string) func(*Facts) {
		return apis(sets.New(provider.RequiredCommands...).Delete(without...).UnsortedList()...)
	}
	lesser := expect{Warning, "createTags", nil}.of(t, "CS-003", all("createTags"))
	require.Equal(t, map[string]string{"without createTags": provider.Losses["createTags"]}, lesser.Evidence)
	expect{"", "the role refuses assignToLoadBalancerRule, createTags", nil}.of(t, "CS-003", all("assignToLoadBalancerRule", "createTags"))
	expect{Unknown, "listApis", nil}.of(t, "CS-003", failing(APIs, csError(cloudstack.KindNotPermitted, "")))
	expect{Unknown, "boom", nil}.of(t, "CS-003", failing(APIs, errors.New("boom")))

	zone := func(name string) func(*Facts) {
		return func(f *Facts) { f.Config.Zone, f.Zones = name, []cloudstack.Zone{{ID: "z1", Name: "zone-1"}} }
	}
	expect{OK, "", nil}.of(t, "CS-004", threeVMs, zone("ZONE-1"))
	expect{"", `zone "mars" does not exist; there are: zone-1`, nil}.of(t, "CS-004", threeVMs, zone("mars"))
	expect{OK, "", nil}.of(t, "CS-004", threeVMs, zone("mars"), failing(Zones, csError(cloudstack.KindNotPermitted, "")))
	expect{"", `project "p" not found`, nil}.of(t, "CS-004", failing(Project, &inventory.ProjectError{Project: "p"}))
	expect{"", "no VMs in", nil}.of(t, "CS-004", ofVMs(snapshot()))
	expect{"", "not a member", nil}.of(t, "CS-004", failing(VMs, csError(cloudstack.KindNotPermitted, "not a member")))
	expect{Unknown, "later", nil}.of(t, "CS-004", failing(VMs, csError(cloudstack.KindTransient, "later")))

	network := func(vpc string, services ...string) func(*Facts) {
		n := cloudstack.Network{ID: "net-1", Name: "k8s-net", VPCID: vpc, Services: map[string]map[string]string{}}
		for _, s := range services {
			n.Services[s] = nil
		}
		return func(f *Facts) { f.Networks = []cloudstack.Network{n} }
	}
	nodes := ofNodes(nodeWith("a"), nodeWith("b"))
	expect{OK, "k8s-net", nil}.of(t, "CS-005", threeVMs, nodes, network("vpc", "Lb", "NetworkACL"))
	expect{"", "", []string{"Network k8s-net: lacks Firewall"}}.of(t, "CS-005", threeVMs, nodes, network("", "Lb"))
	expect{"", "", []string{"Network k8s-net: lacks NetworkACL"}}.of(t, "CS-005", threeVMs, nodes, network("vpc", "Lb"))
	expect{"", "", []string{"Network net-1: of 2 nodes is not visible"}}.of(t, "CS-005", threeVMs, nodes)
	expect{Skipped, "", nil}.of(t, "CS-005", threeVMs)

	expect{Skipped, "no cloud-config", nil}.of(t, "CS-007")
	expect{"", "is asked without TLS", nil}.of(t, "CS-007", config(cloudstack.Config{APIURL: "http://cloud/client/api"}))
	expect{OK, "https://cloud", nil}.of(t, "CS-007", config(cloudstack.Config{APIURL: "https://cloud", CAFile: "x"}))
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
		"nothing about CloudStack":               {[]podlog.Line{wrote(time.Minute, 'I', "hello", nil)}, fine},
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
	source, err := os.ReadFile("../../pkg/provider/contact.go")
	require.NoError(t, err)
	for _, words := range []string{contactMade, contactFailed, contactAgain} {
		require.Contains(t, string(source), strconv.Quote(words), "the check goes by the controller's own words")
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(f *Facts){
		"Secret kube-system/keys, which the CSI driver needs, does not exist": func(f *Facts) { f.Driver.NoFile = "does not exist" },
		"its cloud-config has keys that it does not know: region, rate-limit": func(f *Facts) {
			f.Driver.File += "region = r\nrate-limit = 3\n"
		},
		"has no cloud-config that can be read": func(f *Facts) { f.Driver.File = "" },
		"its CSINode says VM another": func(f *Facts) {
			f.Driver.Nodes[0].Spec.Drivers[0].NodeID = "another"
		},
		"its CSINode lacks the topology key": func(f *Facts) {
			f.Driver.Nodes[0].Spec.Drivers[0].TopologyKeys = nil
		},
		"its label " + ZoneKey + ` is "old"`: func(f *Facts) { f.Nodes[0].Labels[ZoneKey] = "old" },
		"":                                   func(*Facts) {},
	} {
		said := ""
		for _, code := range []string{"STOR-001", "STOR-002"} {
			f := judge(t, code, threeVMs, ofNodes(nodeWith("a", func(n *corev1.Node) { n.Labels[ZoneKey] = "" })), func(f *Facts) {
				secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}
				f.CSI = []Workload{{Namespace: "kube-system", volumes: []corev1.Volume{{VolumeSource: secret}}}}
				f.Driver.File = "[Global]\napi-url = https://cs\napi-key = k\nsecret-key = s\n"
				f.Driver.Nodes = []storagev1.CSINode{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{
					Drivers: []storagev1.CSINodeDriver{{Name: DriverName, NodeID: idA, TopologyKeys: []string{ZoneKey}}},
				}}}
			}, change)
			if f.Outcome != OK {
				said += f.Message
			}
			for _, o := range f.Objects {
				said += o.Message
			}
		}
		require.Contains(t, said, says)
		require.Equal(t, says == "", said == "")
	}
}
