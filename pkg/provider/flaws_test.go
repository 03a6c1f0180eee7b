// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

// The 25 flaws of upstream's provider v1.2.0 that were found by reading and measuring it, each with the test that
// keeps it out of here. The last column names it; TestFlawNN of this file where it is empty.
//
//	    upstream                                                       here                                               test
//	 1  destroyed VM: its Node stays for ever                          the Node goes, on proof                            TestInstanceExists (pkg/node), TestCSCCM (test/e2e)
//	 2  stopped VM: no shutdown taint, an error every 5 s              tainted                                            TestInstanceShutdown (pkg/node), TestCSCCM (test/e2e)
//	 3  rule made, members not: "up to date", nobody serves            the next sync adds the members                     TestPromiseNothingIsLostLeakedOrStolen
//	 4  several source ranges never converge on 4.22                   read back as written, whatever the separator       TestServiceOnEveryRelease
//	 5  rules without source ranges are deleted and recreated          kept, nothing is changed                           TestAdoption
//	 6  PROXY protocol on a live Service: 537 for ever                 switched in place                                  TestProtocolOnEveryRelease
//	 7  PROXY protocol in a VPC: ACL item of protocol tcp-proxy        ACL items are tcp
//	 8  one ACL item for all Services, maybe the operator's own        items of each Service, told apart
//	 9  shared address released with the first Service                 with the last                                      TestSharedAddress
//	10  a failed release leaks the address                             exists until it is gone
//	11  a crash between address and first rule leaks the address       found again, used, released
//	12  more than 500 VMs: no node is found                            all pages are read                                 TestPaging (pkg/cloudstack)
//	13  a VM without NIC ends the process                              that node does not serve                           TestVMWithoutNIC (pkg/node)
//	14  the first NIC counts, a second network fails all Services      the network that all share                         TestNodesInSeveralNetworks
//	15  Node with an FQDN: balanced, but never initialised             found by its first label, by all                   TestNodesOfAService, TestSimulatedProjectWithTheRoleOfCKS
//	16  no eligible node: error, the old members stay                  no members, and an Event                           TestServiceLifeCycle
//	17  members removed by hand stay away                              come back                                          TestDriftIsRepaired
//	18  rule without protocol: never deleted                           deleted with the Service                           TestAdoption
//	19  project and a user's key: the Service is never deleted         deleted                                            TestPromiseNothingIsLostLeakedOrStolen
//	20  the network of an unknown address: all networks are listed     the error is the read's own
//	21  a new loadBalancerIP is passed over                            the Service moves                                  TestPromiseNothingIsLostLeakedOrStolen
//	22  a firewall rule that was not deleted stays open                tried again before the Service is gone             TestPromiseNothingIsLostLeakedOrStolen
//	23  zone: racy, and VMs of other zones are taken                   VMs of the zone alone; safe at once
//	24  a version of less than three parts ends the process            no version is read                                 TestServiceOnEveryRelease
//	25  GetLoadBalancer forgets the hostname                           shows it                                           TestServiceLifeCycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// takenOver returns an environment whose Service web has an address with rules that another provider made.
func takenOver(t *testing.T, ports []int, rules string, annotations ...string) *serviceEnv {
	t.Helper()
	env := newEnv(t, withWorld(func(w string) string {
		w += `
  - address: 203.0.113.40
    network: k8s-net
    loadBalancerRules:` + strings.ReplaceAll(rules, "LB", webLB) + `
    firewallRules:
`
		for _, p := range ports {
			w += fmt.Sprintf("      - {protocol: tcp, startPort: %d, endPort: %d}\n", p, p)
		}
		return w
	}))
	env.create("web", ports, annotate(annotations...), func(s *corev1.Service) {
		s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer} // of the controller that served it before
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.40"}}
	})
	return env
}

func TestFlaw07ProxyProtocolInAVPC(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, withVPC, by("v1"), as(annotate(annotation.ProxyProtocol, "true")))
	assert.Equal(t, "tcp-proxy", env.rulesAt(env.ip("web"))[0].Protocol)
	own := grep(env.dump(), ownReason)
	require.Len(t, own, 1)
	assert.Contains(t, own[0], " allow tcp 80-80 [0.0.0.0/0]")
}

func TestFlaw08ACLItemsAreTheServicesOwn(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withVPC)
	before := grep(env.dump(), "acl ")
	env.create("web", []int{80})
	env.create("mail", []int{80})
	env.mustSync("web", "v1")
	env.mustSync("mail", "v1")
	require.NotEqual(t, env.ip("web"), env.get("mail").Status.LoadBalancer.Ingress[0].IP)
	items := func(name string) []string { return grep(env.dump(), `"Service default/`+name+" (csccm test") }
	require.Len(t, items("web"), 1)
	require.Len(t, items("mail"), 1)

	// The first Service goes: the other one's item stays, and the operator's.
	mail := items("mail")
	require.NoError(t, env.remove("web"))
	assert.Empty(t, items("web"))
	assert.Equal(t, mail, items("mail"))
	for range 2 { // the second time by a controller that remembers nothing
		env.mustSync("mail", "v1")
		assert.Equal(t, mail, items("mail"))
		env.restart()
	}
	require.NoError(t, env.remove("mail"))
	assert.Equal(t, before, grep(env.dump(), "acl "), "the operator's items for port 80 are untouched: "+strings.Join(before, "; "))
}

func TestFlaw10FailedReleaseLeaksNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"refused":         {Kind: simulator.FaultErrorBefore},
		"the job fails":   {Kind: simulator.FaultJobFails},
		"the answer lost": {Kind: simulator.FaultLostAnswer},
	} {
		for _, restarted := range []bool{false, true} {
			parallel(t, fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				env := served(t, []int{80}, by("w1"))
				fault.Command, fault.Caller, fault.Count = "disassociateIpAddress", "ccm", 1
				env.Inject(fault)
				// The framework drops its finalizer when GetLoadBalancer says that nothing exists.
				for attempt := 0; ; attempt++ {
					require.Less(t, attempt, 5)
					if env.remove("web") == nil {
						break
					}
					if restarted {
						env.restart()
					}
				}
				assert.Equal(t, env.before, env.dump())
			})
		}
	}
}

func TestFlaw11CrashAfterTheAddressLeaksNothing(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"associateIpAddress", "createTags", "createLoadBalancerRule"} {
		for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer} {
			for _, deleted := range []bool{false, true} {
				parallel(t, fmt.Sprintf("%s %s, deleted %v", command, kind, deleted), func(t *testing.T) {
					env := newEnv(t)
					env.create("web", []int{80})
					env.Inject(simulator.Fault{Command: command, Caller: "ccm", Kind: kind, Count: 1})
					_ = env.sync("web", "w1")
					env.restart() // only CloudStack and the Service keep their state
					if !deleted {
						require.NoError(t, env.repeat(func(env *serviceEnv) error { return env.sync("web", "w1") }))
						assert.Len(t, grep(env.dump(), webTags), 1, "one address, whatever happened")
					}
					require.NoError(t, env.repeat(removeWeb))
					assert.Equal(t, env.before, env.dump())
				})
			}
		}
	}
}

func TestFlaw20FailedReadOfAnAddressIsAnError(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, by("w1"))
	want := env.dump()
	env.restart()
	env.reset()
	env.Inject(simulator.Fault{Command: "listPublicIpAddresses", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 431, CSErrorCode: 9999, Text: "no such address"})
	require.ErrorContains(t, env.remove("web"), "no such address")
	for _, c := range env.Ledger().Find("listNetworks", "ccm") {
		assert.NotEmpty(t, c.Params["id"], "no list of all networks")
	}
	assert.Equal(t, want, env.dump(), "nothing was done on a guess")
}

func TestFlaw23VMsOfOtherZones(t *testing.T) {
	t.Parallel()
	world := withWorld(func(w string) string {
		w = strings.Replace(w, "accounts:\n", "  - {name: zone-2, publicRanges: [198.51.100.10-198.51.100.20], hosts: [h2]}\naccounts:\n", 1)
		w = strings.Replace(w, "networks:\n", "networks:\n  - {name: far-net, zone: zone-2, account: k8s, cidr: 10.9.1.0/24}\n", 1)
		return strings.Replace(w, "virtualMachines:\n", "virtualMachines:\n  - {name: w5, zone: zone-2, account: k8s, nics: [{network: far-net, ip: 10.9.1.25}]}\n", 1)
	})
	env := newEnv(t, world)
	env.deps = func(d *service.Deps) {
		d.Inventory = inventory.New(env.client(testAPIKey, testSecret), inventory.Options{Zone: "zone-1", Clock: env.clock})
	}
	env.restart()
	env.create("web", []int{80})
	env.mustSync("web", "w5", "w2")
	rules := env.rulesAt(env.ip("web"))
	members := env.membersOf(rules[0].ID)
	var addresses []string
	for i := range members {
		addresses = append(addresses, members[i].Addresses...)
	}
	assert.ElementsMatch(t, []string{"10.1.1.25", "10.1.1.22"}, addresses)
}
