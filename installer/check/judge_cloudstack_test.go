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

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/podlog"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/service"
)

func config(c cloudstack.Config) func(*Facts) { return func(f *Facts) { f.Config = c } }

// The transcripts cover a healthy cluster and one fault of each check. These are the other cases.
func TestCloudStack(t *testing.T) {
	t.Parallel()
	at := config(cloudstack.Config{APIURL: "https://cs/client/api"})
	for v, want := range map[string]expect{
		"4.15.2.0": {"", "too old", nil},
		"4.23.0.0": {Warning, "newer than the tested 4.22", nil},
		"main":     {OK, "", nil},
	} {
		want.of(t, "CS-001", at, func(f *Facts) { f.Capabilities = &cloudstack.Capabilities{Version: v} })
	}
	passes("these keys may not see its release").of(t, "CS-001", at,
		failing(Capabilities, csError(cloudstack.KindAuth, "unable to verify")))
	passes("these keys may not see its release").of(t, "CS-001", at)
	fails("https://cs/client/api: ").of(t, "CS-001", at,
		failing(Capabilities, csError(cloudstack.KindTransient, "connection refused")))
	fails("is broken").of(t, "CS-001", func(f *Facts) { f.NoCloudErr = errors.New("the cloud-config is broken") })
	skips("because").of(t, "CS-001", func(f *Facts) { f.NoCloud = "because" })

	apis := func(names ...string) func(*Facts) { return func(f *Facts) { f.APIs = sets.New(names...) } }
	fails("401").of(t, "CS-002", failing(APIs, csError(cloudstack.KindAuth, "401")))
	passes("accepted").of(t, "CS-002", failing(APIs, csError(cloudstack.KindNotPermitted, "")))
	warns("administrator").of(t, "CS-002", apis("createRole"))
	made := &cloudapi.User{LastName: "cluster uid"}
	warns("ConfigMap kube-system/csccm-cloudstack, the list of what csccm created, is lost").of(t, "CS-002",
		func(f *Facts) { f.Owner, f.Created = made, &credentials.Created{Cluster: "uid"} })
	passes("accepted").of(t, "CS-002",
		func(f *Facts) { f.Owner, f.Created = made, &credentials.Created{Cluster: "another"} })
	unknown("boom").of(t, "CS-002", failing(Capabilities, errors.New("boom")))

	all := func(without ...string) func(*Facts) {
		return apis(sets.New(provider.RequiredCommands...).Delete(without...).UnsortedList()...)
	}
	lesser := warns("createTags").of(t, "CS-003", all("createTags"))
	require.Equal(t, map[string]string{"without createTags": provider.Losses["createTags"]}, lesser.Evidence)
	fails("the role refuses assignToLoadBalancerRule, createTags").of(t, "CS-003",
		all("assignToLoadBalancerRule", "createTags"))
	unknown("listApis").of(t, "CS-003", failing(APIs, csError(cloudstack.KindNotPermitted, "")))
	unknown("boom").of(t, "CS-003", failing(APIs, errors.New("boom")))

	zone := func(name string) func(*Facts) {
		return func(f *Facts) { f.Config.Zone, f.Zones = name, []cloudstack.Zone{{ID: "z1", Name: "zone-1"}} }
	}
	passes("").of(t, "CS-004", threeVMs, zone("ZONE-1"))
	fails(`zone "mars" does not exist; there are: zone-1`).of(t, "CS-004", threeVMs, zone("mars"))
	passes("").of(t, "CS-004", threeVMs, zone("mars"), failing(Zones, csError(cloudstack.KindNotPermitted, "")))
	fails(`project "p" not found`).of(t, "CS-004", failing(Project, &inventory.ProjectError{Project: "p"}))
	fails("no VMs in").of(t, "CS-004", ofVMs(snapshot()))
	fails("not a member").of(t, "CS-004", failing(VMs, csError(cloudstack.KindNotPermitted, "not a member")))
	unknown("later").of(t, "CS-004", failing(VMs, csError(cloudstack.KindTransient, "later")))

	network := func(vpc string, services ...string) func(*Facts) {
		n := cloudstack.Network{
			ID:           "net-1",
			Name:         "k8s-net",
			VPCID:        vpc,
			ConserveMode: true,
			Services:     map[string]map[string]string{},
		}
		for _, s := range services {
			n.Services[s] = nil
		}
		return func(f *Facts) { f.Networks = []cloudstack.Network{n} }
	}
	nodes := ofNodes(nodeWith("a"), nodeWith("b"))
	passes("k8s-net").of(t, "CS-005", threeVMs, nodes, network("vpc", "Lb", "NetworkACL"))
	fails("", "Network k8s-net: lacks Firewall").of(t, "CS-005", threeVMs, nodes, network("", "Lb"))
	fails("", "Network k8s-net: lacks NetworkACL").of(t, "CS-005", threeVMs, nodes, network("vpc", "Lb"))
	fails("", "Network net-1: of 2 nodes is not visible").of(t, "CS-005", threeVMs, nodes)
	skips("").of(t, "CS-005", threeVMs)

	skips("no cloud-config").of(t, "CS-007")
	fails("is asked without TLS").of(t, "CS-007", config(cloudstack.Config{APIURL: "http://cloud/client/api"}))
	passes("https://cloud").of(t, "CS-007", config(cloudstack.Config{APIURL: "https://cloud", CAFile: "x"}))
}

func wrote(ago time.Duration, level byte, message string, values map[string]string) podlog.Line {
	return podlog.Line{At: now.Add(-ago), Level: level, Source: "x.go:1", Message: message, Values: values}
}

func failedWith(text string) map[string]string { return map[string]string{"err": text} }

func ofLogs(logs ...Log) func(*Facts) { return func(f *Facts) { f.Logs = logs } }

func TestContact(t *testing.T) {
	t.Parallel()
	const lookup = "cloudstack listVirtualMachines: cannot reach the API: dial tcp: lookup cs: no such host"
	can, cannot := wrote(30*time.Minute, 'I', usable, nil), wrote(time.Minute, 'E', contactFailed,
		failedWith(lookup))
	failed := wrote(4*time.Minute, 'E', "Sync failed", failedWith(lookup))
	again := func(ago time.Duration) podlog.Line {
		return wrote(ago, 'I', contactAgain, map[string]string{"after": "1m2s"})
	}
	used := wrote(time.Minute, 'I', configUsed, nil)
	fine := passes("no call fails")
	for name, tt := range map[string]struct {
		lines []podlog.Line
		want  expect
	}{
		"an empty log":             {nil, unknown("empty")},
		"nothing about CloudStack": {[]podlog.Line{wrote(time.Minute, 'I', "hello", nil)}, fine},
		"contact after failure":    {[]podlog.Line{cannot, wrote(0, 'I', usable, nil)}, fine},
		"over":                     {[]podlog.Line{can, failed, again(3 * time.Minute)}, fine},
		"keys or certificates that work came later": {[]podlog.Line{can, failed, used}, fine},
		"tried again soon": {
			[]podlog.Line{wrote(time.Minute, 'E', contactFailed, map[string]string{"err": lookup, "retryIn": "1m10s"})},
			fails("no such host", "Pod p: said so 1m0s ago; next try at 03:04:15Z, in 10s"),
		},
		"began during the outage": {[]podlog.Line{failed, again(3 * time.Minute),
			wrote(3*time.Minute, 'I', usable, nil)}, fine},
		"lost again": {[]podlog.Line{failed, again(3 * time.Minute), cannot},
			fails("no such host", "Pod p: 1m0s ago")},
		"an old outage": {[]podlog.Line{wrote(15*time.Minute, 'E', "Sync failed",
			failedWith(lookup)), again(14 * time.Minute)}, fine},
		"the failures are in lines not read": {[]podlog.Line{again(time.Minute)}, fine},
		"an old failure": {[]podlog.Line{wrote(20*time.Minute, 'E', "Sync failed",
			failedWith(lookup))}, fine},
		"an API server that cannot be reached": {[]podlog.Line{wrote(time.Minute, 'E', "lock",
			failedWith("Get https://10.96.0.1: connect: connection refused"))}, passes("")},
		"keys that are refused at the beginning": {[]podlog.Line{wrote(time.Minute, 'E', contactFailed,
			map[string]string{"err": "cloudstack listZones: 401", "remedy": "check api-key"})},
			fails("401", "Pod p: 1m0s ago")},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); tt.want.of(t, "CS-006", ofLogs(Log{"p", tt.lines})) })
	}

	skips("no Pod").of(t, "CS-006")

	// A success that only an Event or a condition shows also ends a failure.
	synced := event("Service", "web", "cloudstack-cloud-controller-manager", "EnsuredLoadBalancer", "Normal",
		time.Minute)
	fine.of(t, "CS-006", ofLogs(Log{"p", []podlog.Line{failed}}), func(f *Facts) { f.Events = []corev1.Event{synced} })
	fails("no such host", "Pod p: 1m0s ago").of(t, "CS-006", ofLogs(Log{"p", []podlog.Line{can, cannot}}),
		func(f *Facts) {
			f.Events = []corev1.Event{event("Service", "web", "cloudstack-cloud-controller-manager",
				"EnsuredLoadBalancer",
				"Normal", 2*time.Minute)}
		})

	fine.of(t, "CS-006", ofLogs(Log{"p", []podlog.Line{failed}}), func(f *Facts) {
		f.Services = []corev1.Service{lbService(func(s *corev1.Service) {
			s.Status.Conditions = []metav1.Condition{
				{Type: service.ConditionReady, Status: "True", LastTransitionTime: metav1.NewTime(now)},
			}
		})}
	})

	// A Pod's success does not prove that another Pod reaches the API.
	fails("no such host", "Pod a: 4m0s ago").of(t, "CS-006",
		ofLogs(Log{"a", []podlog.Line{failed}}, Log{"b", []podlog.Line{can, failed, again(time.Minute)}}))
	source, err := os.ReadFile("../../pkg/provider/contact.go")
	require.NoError(t, err)
	for _, words := range []string{usable, contactFailed, contactAgain} {
		require.Contains(t, string(source), strconv.Quote(words), "the check goes by the controller's own words")
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(f *Facts){
		"Secret kube-system/keys, which the CSI driver needs, does not exist": func(f *Facts) {
			f.Driver.NoFile = "does not exist"
		},
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
			f := judge(t, code, threeVMs, ofNodes(nodeWith("a", func(n *corev1.Node) { n.Labels[ZoneKey] = "" })),
				func(f *Facts) {
					secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}
					f.CSI = []Workload{{Namespace: "kube-system", volumes: []corev1.Volume{{VolumeSource: secret}}}}
					f.Driver.File = "[Global]\napi-url = https://cs\napi-key = k\nsecret-key = s\n"
					f.Driver.Nodes = []storagev1.CSINode{{
						ObjectMeta: metav1.ObjectMeta{Name: "a"},
						Spec: storagev1.CSINodeSpec{
							Drivers: []storagev1.CSINodeDriver{
								{Name: DriverName, NodeID: idA, TopologyKeys: []string{ZoneKey}},
							},
						},
					}}
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

// Findings of ckscheck become problems of the cluster. Errors get the severity of the check, warnings stay warnings.
func TestOfCKS(t *testing.T) {
	t.Parallel()
	stopped := ckscheck.Finding{
		Severity:  ckscheck.Error,
		Object:    "VM a",
		What:      "it is Stopped",
		Remedy:    "start it",
		Reference: "issue 1",
	}

	small := ckscheck.Finding{Severity: ckscheck.Warning, Object: "VM b", What: "it is small", Remedy: "start it"}
	unread := ckscheck.Finding{Severity: ckscheck.NotChecked, Object: "the Nodes", What: "no"}
	for _, tt := range []struct {
		found   []ckscheck.Finding
		outcome Outcome
		objects Objects
	}{
		{nil, OK, nil},
		{[]ckscheck.Finding{small, unread}, Warning,
			Objects{{Kind: "KubernetesCluster", Name: "c1", Message: "VM b: it is small"}}},
		{[]ckscheck.Finding{stopped}, "",
			Objects{{Kind: "KubernetesCluster", Name: "c1", Message: "VM a: it is Stopped (issue 1)"}}},
	} {
		judge := ofCKS("well", ckscheck.SubjectNodes, func(*ckscheck.Facts) []ckscheck.Finding { return tt.found })
		f := judge(facts(func(f *Facts) { f.CKS = &ckscheck.Facts{Cluster: &cloudapi.KubernetesCluster{Name: "c1"}} }))
		require.Equal(t, tt.outcome, f.Outcome)
		require.Equal(t, tt.objects, f.Objects)
		require.Equal(t, tt.objects != nil, f.Remedy == "start it")
	}
}

const (
	uidWeb = "01234567-89ab-cdef-0123-456789abcdef"
	lbWeb  = "a0123456789abcdef0123456789abcde"
	lbGone = "affffffffffffffffffffffffffffff0"
)

func lbService(change ...func(s *corev1.Service)) corev1.Service {
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "default",
			Name:              "web",
			UID:               uidWeb,
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		},
	}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.11"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func lbRule(id, name string, port int) cloudstack.LoadBalancerRule {
	return cloudstack.LoadBalancerRule{
		ID:          id,
		Name:        name,
		PublicIP:    "203.0.113.11",
		PublicPort:  port,
		PrivatePort: 30000 + port,
		Protocol:    "tcp",
		State:       "Active",
		NetworkID:   "net-1",
	}
}

func members(ids ...string) []cloudstack.LoadBalancerMember {
	var out []cloudstack.LoadBalancerMember
	for _, id := range ids {
		out = append(out, cloudstack.LoadBalancerMember{VMID: id, Name: id[:1]})
	}
	return out
}

// healthy adds a cluster of three nodes with one Service that works.
func healthy(f *Facts) {
	threeVMs(f)
	f.Nodes, f.Services = []corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("c")}, []corev1.Service{lbService()}
	f.AllRules = []cloudstack.LoadBalancerRule{lbRule("1", lbWeb+"-tcp-80", 80)}
}

// Only an administrator's keys can read the state of a router.
func TestNetworks(t *testing.T) {
	t.Parallel()
	network := func(change func(*cloudstack.Network)) func(*Facts) {
		return func(f *Facts) {
			n := cloudstack.Network{
				ID:           "net-1",
				Name:         "k8s-net",
				State:        "Implemented",
				ConserveMode: true,
				Services:     map[string]map[string]string{"Lb": nil, "Firewall": nil},
			}
			change(&n)
			f.Networks = []cloudstack.Network{n}
		}
	}

	passes("k8s-net; these keys cannot see whether its router runs: csccm test").of(t, "CS-005", healthy,
		network(func(*cloudstack.Network) {}))
	passes("k8s-net (without conserve mode").of(t, "CS-005", healthy,
		network(func(n *cloudstack.Network) { n.ConserveMode = false }))
	passes("k8s-net;").of(t, "CS-005", healthy, network(func(n *cloudstack.Network) { n.VPCID = "vpc" }))
	const net = "Network k8s-net: of 3 nodes is "
	for state, want := range map[string]string{"Shutdown": "in state Shutdown", "Implemented": "to be restarted"} {
		change := network(func(n *cloudstack.Network) { n.State, n.RestartRequired = state, true })
		fails("1 network does not balance load as it should", net+want).of(t, "CS-005", healthy, change)
	}

	fails("1 network does not balance load as it should", "Network k8s-net: lacks Lb").of(t, "CS-005", healthy,
		network(func(n *cloudstack.Network) {
			delete(n.Services, "Lb")
		}))
}

func TestServices(t *testing.T) {
	t.Parallel()
	const web = "Service default/web: "
	planned := func(p planner.Service) func(*Facts) {
		return func(f *Facts) { f.Planned = map[string]*planner.Service{"default/web": &p} }
	}
	open := plan.Step{Kind: plan.OpenFirewall, On: plan.On{IP: "203.0.113.11"}}
	held := open
	held.BlockedByPolicy = true
	would := func(a ...plan.Step) planner.Service {
		return planner.Service{Preview: loadbalancer.Preview{Actions: a}}
	}
	address := func(f *Facts) { f.Services[0].Status.LoadBalancer.Ingress = nil }
	fresh := func(f *Facts) { f.Services[0].CreationTimestamp = metav1.NewTime(now) }
	is := func(c metav1.Condition) func(*Facts) {
		c.Type = service.ConditionReady
		return func(f *Facts) { f.Services[0].Status.Conditions = []metav1.Condition{c} }
	}

	tries := func(in string) func(*Facts) {
		values := map[string]string{"service": "default/web", "in": in}
		return ofLogs(Log{"p", []podlog.Line{wrote(30*time.Second, 'E', "it is tried again", values)}})
	}

	refused := planner.Service{
		Preview: loadbalancer.Preview{
			Refusal: &plan.RefusalError{Message: "port 80 is taken", Remedy: "use another port"},
		},
	}

	for name, tt := range map[string]struct {
		changes []func(f *Facts)
		want    expect
	}{
		"none": {changes{func(f *Facts) { f.Services = nil }}, passes("0 Services")},
		"other kinds do not count": {changes{func(f *Facts) {
			f.Services[0].Spec.Type = corev1.ServiceTypeNodePort
			f.Services = append(f.Services,
				lbService(func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.org/other") }))
		}}, passes("0 Services")},
		"old and without an address, with the reason": {
			changes{address,
				is(metav1.Condition{Status: "False", Reason: "PortTaken", Message: "a message\nin two lines"})},
			fails("1 of 1 Service", web+"has no address since 1h0m0s; PortTaken: a message in two lines"),
		},
		"tried again": {
			changes{address, tries("2m0s")}, fails("", web+"next try at 03:05:35Z, in 1m30s"),
		},
		"a time that has passed": {
			changes{address, tries("20s")}, fails("", web+"has no address since 1h0m0s"),
		},
		"the plan is empty": {changes{planned(planner.Service{})}, passes("1 Service")},
		"the plan has actions": {
			changes{planned(would(open, plan.Step{Kind: plan.TagRules}, held, open))},
			fails("1 of 1 Service", web+"would open port 0 on 203.0.113.11 to "),
		},
		"a Service that was just changed is being worked on": {
			changes{
				planned(would(open)),
				is(metav1.Condition{Status: "False", LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}),
			},
			warns("1 of 1 Service not checked yet", web+"has been syncing since 1m0s; it is checked in 1m0s"),
		},
		"what is new is not judged before it is tried": {
			changes{address, fresh}, warns("1 of 1 Service not checked yet", web+"checked in 2m0s"),
		},
		"a Service that waits is being worked on": {
			changes{
				planned(would(open)),
				is(metav1.Condition{
					Status:             "False",
					Reason:             "Waiting",
					LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
				}),
			},
			warns("1 of 1 Service not checked yet", web+"has been syncing since 1m0s"),
		},
		"a Service that failed is named at once, with the next try": {
			changes{
				planned(would(open)), tries("1m30s"),
				is(metav1.Condition{
					Status:             "False",
					Reason:             "CloudStackError",
					LastTransitionTime: metav1.NewTime(now.Add(-time.Second)),
				}),
			},
			fails("1 of 1 Service", web+"would open port 0 on 203.0.113.11 to ; next try at 03:05:05Z, in 1m0s"),
		},
		"a deleted Service that is not cleaned up": {
			changes{func(f *Facts) {
				f.Services[0].DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)}
				f.Services[0].Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
			}, is(metav1.Condition{Status: "False", Message: "no answer"}), tries("1m30s")},
			fails("1 of 1 Service",
				web+"was deleted 1h0m0s ago and is not cleaned up: no answer; next try at 03:05:05Z"),
		},
		"a new Service that is refused is given no time": {
			changes{address, fresh, planned(refused)}, fails("1 of 1 Service", web+"refused: port 80 is taken"),
		},
		"no plan": {
			changes{planned(planner.Service{Error: "no answer"})},
			fails("1 of 1 Service", web+"cannot be compared: no answer"),
		},
		"no plan at all": {
			changes{func(f *Facts) { f.PlanErr = errors.New("no Deployment") }},
			unknown("1 Service; the controller's plan could not be made: no Deployment"),
		},
		"Ready in a large cluster": {
			changes{is(metav1.Condition{Status: "True"})},
			passes("1 Service; 1 of them are Ready and were not compared, --only LB compares all"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.of(t, "LB-001", append(changes{healthy}, tt.changes...)...)
		})
	}
}

func TestRuleNames(t *testing.T) {
	t.Parallel()
	odd := func(f *Facts) {
		f.AllRules = []cloudstack.LoadBalancerRule{
			lbRule("1", lbWeb+"-80", 80), lbRule("2", lbWeb+"-443", 443), lbRule("3", lbWeb+"-tcp-443", 443),
			lbRule("4", lbGone+"-80", 80), lbRule("5", "affffffffffffffffffffffffffffff1-80", 80),
		}
		f.AllRules[1].PublicIP = "203.0.113.99"
		f.OddMembers = lbrules.Members{
			"4": members(idA, idB),
			"5": members(idA, "dddddddd-0000-4000-8000-000000000004"),
		}
	}
	old := []string{"LoadBalancerRule " + lbWeb + "-80: Service default/web"}
	expect{"", "1 rule too many",
		append([]string{"LoadBalancerRule " + lbWeb + "-443: serves the same port"}, old...)}.of(t, "LB-002", healthy,
		odd)
	fails("1 rule", "LoadBalancerRule "+lbGone+"-80: nodes of this cluster").of(t, "LB-003", healthy, odd)
}

// An address without a Service is reported because it costs money, unless somebody else uses or keeps it.
func TestAddressesWithoutAService(t *testing.T) {
	t.Parallel()
	const ofCluster, ofUID, allocatedBy, us = plan.TagCluster, plan.TagServiceUID, plan.TagAllocatedBy, plan.ManagedBy
	const here, mark = "203.0.113.60", "PublicIpAddress 203.0.113.60: "
	plain := cloudstack.PublicIP{
		ID:                  "i",
		Address:             here,
		AssociatedNetworkID: "net-1",
		Allocated:           "2026-01-01T00:00:00+0000",
	}

	with := func(change func(a *cloudstack.PublicIP)) func(*Facts) {
		return func(f *Facts) {
			a := plain
			change(&a)
			f.Addresses = []cloudstack.PublicIP{a}
		}
	}

	untagged := with(func(*cloudstack.PublicIP) {})
	tagged := func(tags ...string) func(*Facts) {
		return with(func(a *cloudstack.PublicIP) {
			a.Tags = map[string]string{}
			for i := 0; i < len(tags); i += 2 {
				a.Tags[tags[i]] = tags[i+1]
			}
		})
	}

	rule := func(name, member string) func(*Facts) {
		return func(f *Facts) {
			f.AllRules = []cloudstack.LoadBalancerRule{
				{ID: "r", Name: name, PublicIP: here, PublicIPID: "i", PublicPort: 80},
			}
			f.OddMembers = lbrules.Members{"r": members(member)}
		}
	}

	having := func(change func(s *corev1.Service)) func(*Facts) {
		return func(f *Facts) {
			s := f.Services[0].DeepCopy()
			s.Name, s.UID, s.Annotations = "db", "db", map[string]string{}
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: here}}
			s.Status.Conditions = []metav1.Condition{{Type: service.ConditionReady, Status: metav1.ConditionTrue}}
			change(s)
			f.Services = append(f.Services, *s)
		}
	}

	shown := having(func(*corev1.Service) {})
	record := func(text string) func(*Facts) {
		return having(func(s *corev1.Service) { s.Annotations[annotation.Addresses] = text })
	}
	acquired := record(`[{"id":"i","ip":"203.0.113.60","allocated":true}]`)
	noRight := func(f *Facts) { f.APIs = nil }
	idle := fails("1 address allocated", mark+"nothing is on it that forwards traffic; id i, allocated 2026-01-01")
	stays := fails("1 address would stay", mark+"stays when Service default/db is deleted")
	ok := passes("none")
	for name, tt := range map[string]struct {
		changes changes
		want    expect
		fix     string
	}{
		"nothing on it": {changes{untagged}, idle, "`cmk disassociate ipaddress id=i`"},
		"acquired a moment ago, perhaps for a Service": {
			changes{with(func(a *cloudstack.PublicIP) { a.Allocated = "2026-01-02T05:03:05+0200" })},
			fails("1 address allocated", mark+"nothing is on it that forwards traffic yet; id i"), "",
		},
		"in the nodes' VPC": {changes{with(func(a *cloudstack.PublicIP) { a.AssociatedNetworkID, a.VPCID = "", "vpc" }),
			func(f *Facts) {
				f.Networks = []cloudstack.Network{{ID: "net-1", VPCID: "vpc"}}
			}}, idle, "id=i`"},
		"in another network": {changes{with(func(a *cloudstack.PublicIP) { a.AssociatedNetworkID = "net-2" })},
			ok, ""},
		"source NAT":                {changes{with(func(a *cloudstack.PublicIP) { a.SourceNAT = true })}, ok, ""},
		"static NAT":                {changes{with(func(a *cloudstack.PublicIP) { a.StaticNAT = true })}, ok, ""},
		"somebody's own tag":        {changes{tagged("keep", "for the audit")}, ok, ""},
		"another cluster's":         {changes{tagged(ofCluster, "another", ofUID, "x")}, ok, ""},
		"kept":                      {changes{tagged(ofCluster, "ours", plan.TagKeptBy, "default/db")}, ok, ""},
		"a rule of somebody else":   {changes{untagged, rule("intranet", "elsewhere")}, ok, ""},
		"a rule of another cluster": {changes{untagged, rule(lbGone+"-tcp-80", "elsewhere")}, ok, ""},
		"a rule of a Service that is gone": {
			changes{untagged, rule(lbGone+"-tcp-80", idA)},
			fails("1 address allocated", mark+"it has only rules of deleted Services"), "id=i`",
		},
		"a port forwarding": {changes{untagged,
			func(f *Facts) { f.Forwards = []cloudstack.PortForwarding{{PublicIP: here}} }}, ok, ""},
		"of a Service that is gone, with a rule of somebody else": {
			changes{tagged(ofCluster, "ours", ofUID, "gone"), rule("intranet", "elsewhere")},
			fails("1 address allocated", mark+"others have rules or NAT on it"), "",
		},
		"of a Service that is gone, by a former id of the cluster": {
			changes{tagged(ofCluster, "former", ofUID, "gone")},
			fails("1 address allocated", mark+`tagged for Service  of cluster "former", which does not exist here`), "id=i`",
		},
		"a Service asks for it": {
			changes{untagged,
				having(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress, s.Spec.LoadBalancerIP = nil, here })},
			ok, "",
		},
		"a Service has it by tags alone": {changes{tagged(ofCluster, "ours", ofUID, "db", allocatedBy, us),
			having(func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = nil
			})}, ok, ""},
		"of a Service, acquired by somebody else": {
			changes{untagged, shown}, stays, "`csccm adopt default/db`",
		},
		"of a Service of Leaseweb's provider, which recorded it": {
			changes{untagged, having(func(s *corev1.Service) {
				s.Annotations = map[string]string{annotation.Address: here, annotation.LeasewebNetworkID: "net-1"}
			})}, stays, "`csccm adopt default/db`",
		},
		"its tags were removed, and the controller gave it up": {
			changes{untagged, record(`[{"id":"i","ip":"203.0.113.60"}]`)},
			stays, "`csccm adopt default/db`",
		},
		"recorded as acquired": {changes{untagged, acquired}, ok, ""},
		"chosen by the Service": {
			changes{untagged, having(func(s *corev1.Service) { s.Annotations[annotation.Address] = here })}, ok, "",
		},
		"kept after the Service": {
			changes{untagged, having(func(s *corev1.Service) { s.Annotations[annotation.KeepIP] = "true" })}, ok, "",
		},
		"recorded as acquired, and the role may not tag": {
			changes{untagged, acquired, noRight}, ok, "",
		},
		"no record, and the role may not tag": {
			changes{untagged, shown, noRight},
			stays, "`csccm adopt default/db`",
		},
		"the tag that says who acquired it was removed": {
			changes{
				tagged(ofCluster, "ours", ofUID, "db", plan.TagService, "default/db"),
				acquired,
			}, stays, "`csccm adopt default/db`",
		},
		"only the cluster's tag was left": {
			changes{tagged(ofCluster, "ours"), acquired},
			stays, "`csccm adopt default/db`",
		},
		"left to the others that use it": {
			changes{tagged(ofCluster, "ours", allocatedBy, us), shown}, ok, "",
		},
		"of another Service that lives": {
			changes{tagged(ofCluster, "ours", ofUID, uidWeb, allocatedBy, us), shown}, ok, "",
		},
		"of a Service that was made again without its record": {
			changes{tagged(ofCluster, "ours", ofUID, "gone", allocatedBy, us), shown},
			stays,
			"`cmk delete tags resourcetype=PublicIpAddress resourceids=i`; have the controller release the address " +
				"with its Service: `csccm adopt default/db`",
		},
		"nothing on it, and only the cluster's tag was left": {changes{tagged(ofCluster, "ours")}, idle, "id=i`"},
		"nothing on it, and the cluster's tag was removed": {
			changes{tagged(ofUID, "gone", allocatedBy, us)}, idle, "id=i`",
		},
		"nothing on it, and somebody's own tag beside ours": {changes{tagged(ofCluster, "ours", "keep",
			"for the audit")}, ok, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := func(f *Facts) {
				f.ClusterIDs, f.APIs, f.Quota = []string{"ours",
					"former"}, sets.New("createTags"), &cloudapi.Usage{Used: 5, Max: 20}
			}
			got := tt.want.of(t, "LB-004", append(changes{healthy, base}, tt.changes...)...)
			require.Contains(t, got.Remedy, tt.fix)
			require.Equal(t, "5 of 20", got.Evidence["addresses of the account"])
			if tt.fix == "" {
				require.Empty(t, got.Remedy, "nothing is to be released")
			}
		})
	}
}
