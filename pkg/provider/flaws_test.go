// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

// The 25 flaws of upstream's provider v1.2.0 that were found by reading and measuring it, each with the test that
// keeps it out of here. Tests are named TestFlawNN, in the file of the last column, or as that column says.
//
//	    upstream                                                       here                                               file
//	 1  destroyed VM: its Node stays for ever                          the Node goes, on proof                            TestSimulatedLifeOfVMs
//	 2  stopped VM: no shutdown taint, an error every 5 s              tainted                                            TestSimulatedLifeOfVMs, TestInstanceShutdown
//	 3  rule made, members not: "up to date", nobody serves            the next sync adds the members                     flaws
//	 4  several source ranges never converge on 4.22                   read back as written, whatever the separator       flaws
//	 5  rules without source ranges are deleted and recreated          kept, nothing is changed                           flaws
//	 6  PROXY protocol on a live Service: 537 for ever                 switched in place                                  flaws
//	 7  PROXY protocol in a VPC: ACL item of protocol tcp-proxy        ACL items are tcp                                  flaws
//	 8  one ACL item for all Services, maybe the operator's own        items of each Service, told apart                  flaws
//	 9  shared address released with the first Service                 with the last                                      TestSharedAddress
//	10  a failed release leaks the address                             exists until it is gone                            flaws_addresses
//	11  a crash between address and first rule leaks the address       found again, used, released                        flaws_addresses
//	12  more than 500 VMs: no node is found                            all pages are read                                 flaws_nodes
//	13  a VM without NIC ends the process                              that node does not serve                           flaws
//	14  the first NIC counts, a second network fails all Services      the network that all share                         flaws
//	15  Node with an FQDN: balanced, but never initialised             found by its first label, by all                   flaws_nodes
//	16  no eligible node: error, the old members stay                  no members, and an Event                           flaws
//	17  members removed by hand stay away                              come back                                          TestDriftLoopRepairs, TestDriftIsRepaired
//	18  rule without protocol: never deleted                           deleted with the Service                           flaws
//	19  project and a user's key: the Service is never deleted         deleted                                            flaws_addresses
//	20  the network of an unknown address: all networks are listed     the error is the read's own                        flaws_addresses
//	21  a new loadBalancerIP is passed over                            the Service moves                                  flaws_addresses
//	22  a firewall rule that was not deleted stays open                tried again before the Service is gone             flaws_addresses
//	23  zone: racy, and VMs of other zones are taken                   VMs of the zone alone; safe at once                flaws_nodes
//	24  a version of less than three parts ends the process            no version is read                                 flaws_nodes
//	25  GetLoadBalancer forgets the hostname                           shows it                                           flaws

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// takenOver returns an environment whose Service web has an address with rules that another provider made.
func takenOver(t *testing.T, ports []int, rules string) *serviceEnv {
	t.Helper()
	env := newEnv(t, withWorld(func(w string) string {
		return w + `
  - address: 203.0.113.40
    network: k8s-net
    loadBalancerRules:` + strings.ReplaceAll(rules, "LB", webLB) + `
    firewallRules:
      - {protocol: tcp, startPort: 80, endPort: 80}
`
	}))
	env.create("web", ports, func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.40"}}
	})
	return env
}

// ruleWrites are the commands that change rules themselves.
var ruleWrites = []string{"createLoadBalancerRule", "updateLoadBalancerRule", "deleteLoadBalancerRule"}

func TestFlaw03MembersAfterAFailedAssignment(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"refused":         {Kind: simulator.FaultErrorBefore, HTTPStatus: 431},
		"the job fails":   {Kind: simulator.FaultJobFails},
		"the answer lost": {Kind: simulator.FaultLostAnswer},
	} {
		for _, restarted := range []bool{false, true} {
			parallel(t, name, func(t *testing.T) {
				env := newEnv(t)
				env.create("web", []int{80})
				fault.Command, fault.Caller, fault.Count = "assignToLoadBalancerRule", "ccm", 1
				env.Inject(fault)
				if err := env.sync("web"); err != nil {
					if restarted {
						env.restart()
					}
					env.mustSync("web")
				}
				assert.Contains(t, grep(env.dump(), webLB)[0], "[w1 w2]", "the Service has a status, so it has members")
			})
		}
	}
}

func TestFlaw04SeveralRangesConverge(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80, 81})
	env.mustSync("web", "w1")
	env.edit("web", func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{"192.168.0.0/16", "10.0.0.0/8", "172.16.0.0/12"}
	})
	env.mustSync("web", "w1")
	// What the server stored after an update is read back, by a controller that remembers nothing.
	for range 3 {
		env.restart()
		env.reset()
		env.mustSync("web", "w1")
		assert.Zero(t, env.Ledger().Count(ruleWrites...))
	}
	for _, r := range env.rulesAt(env.ip("web")) {
		assert.ElementsMatch(t, []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}, r.CIDRs)
	}
}

func TestFlaw05RulesWithoutRangesAreKept(t *testing.T) {
	t.Parallel()
	env := takenOver(t, []int{80}, `
      - {name: LB-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, members: [w1, w2]}`)
	before, id := env.dump(), env.rulesAt("203.0.113.40")[0].ID
	env.reset()
	env.mustSync("web")
	assert.Zero(t, env.Ledger().Count(ruleWrites...))
	assert.Equal(t, before, env.dump())
	assert.Equal(t, id, env.rulesAt("203.0.113.40")[0].ID)
}

func TestFlaw06ProxyProtocolOnALiveService(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80})
	env.mustSync("web", "w1")
	id := env.rulesAt(env.ip("web"))[0].ID
	for _, c := range []struct{ value, protocol string }{{"true", "tcp-proxy"}, {"false", "tcp"}, {"true", "tcp-proxy"}} {
		env.edit("web", annotate(annotation.ProxyProtocol, c.value))
		env.mustSync("web", "w1")
		rule := env.rulesAt(env.ip("web"))[0]
		assert.Equal(t, c.protocol, rule.Protocol)
		assert.Equal(t, id, rule.ID, "the rule is the same one: traffic goes on")
	}
}

func TestFlaw18RuleWithoutProtocolIsDeleted(t *testing.T) {
	t.Parallel()
	env := takenOver(t, []int{80}, `
      - {name: LB-80, publicPort: 80, privatePort: 30080, members: [w1]}`)
	require.Empty(t, env.rulesAt("203.0.113.40")[0].Protocol)
	env.mustSync("web", "w1")
	require.NoError(t, env.remove("web"))
	assert.Equal(t, []string{"address Allocated []"}, of(env.dump(), "203.0.113.40"), "rule and firewall are gone; the address was never ours")
}

func TestFlaw25HostnameInGetLoadBalancer(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80}, annotate(annotation.Hostname, "lb.example.org"))
	env.mustSync("web", "w1")
	for range 2 { // the second time by a controller that has just started
		status, exists, err := env.lb.GetLoadBalancer(t.Context(), "", env.get("web"))
		require.NoError(t, err)
		assert.True(t, exists)
		assert.Equal(t, env.get("web").Status.LoadBalancer, *status)
		assert.Equal(t, "lb.example.org", status.Ingress[0].Hostname)
		assert.Empty(t, status.Ingress[0].IP)
		env.restart()
	}
}

func TestFlaw07ProxyProtocolInAVPC(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withVPC)
	env.create("web", []int{80}, annotate(annotation.ProxyProtocol, "true"))
	env.mustSync("web", "v1")
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

// A VM that is being made has no NIC yet.
func TestFlaw13VMWithoutNIC(t *testing.T) {
	t.Parallel()
	cloud := &fakeCloud{vms: machines(2)}
	cloud.vms[1].NICs = nil
	p, _ := newTestProvider(t, cloud, DefaultOptions())
	nodes := []*corev1.Node{k8sNode(cloud.vms[0].Name, ""), k8sNode(cloud.vms[1].Name, "")}
	vms, err := p.inventory.VMs(t.Context(), 0)
	require.NoError(t, err)
	members, failed := match(vms, nodes)
	require.Len(t, members, 1, "the other node serves")
	assert.Equal(t, cloud.vms[0].ID, members[0].VMID)
	require.Len(t, failed, 1)
	require.ErrorContains(t, failed[0].err, "has no NIC")

	// The node itself waits without ending anything.
	_, err = p.instances.InstanceMetadata(t.Context(), nodes[1])
	require.NoError(t, err)
	exists, err := p.instances.InstanceExists(t.Context(), k8sNode("w2", "external-cloudstack://"+cloud.vms[1].ID))
	require.NoError(t, err)
	assert.True(t, exists)
}

func TestFlaw14NetworkOfTheNodes(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withWorld(func(w string) string {
		return strings.Replace(w, "virtualMachines:\n", `virtualMachines:
  - {name: m1, account: k8s, nics: [{network: second-net, ip: 10.1.3.41}, {network: k8s-net, ip: 10.1.1.41, default: true}]}
`, 1)
	}))
	env.create("web", []int{80})
	env.mustSync("web", "m1", "w1")
	rules := env.rulesAt(env.ip("web"))
	require.Len(t, rules, 1)
	nets, err := env.inspect.ListNetworks(t.Context(), cloudstack.NetworkQuery{ID: rules[0].NetworkID})
	require.NoError(t, err)
	assert.Equal(t, "k8s-net", nets[0].Name, "the network that all nodes share, whichever NIC is first")
	members := env.membersOf(rules[0].ID)
	assert.Len(t, members, 2)

	// A node in another network alone does not keep the others from serving. For a new Service the network has to be named.
	env.mustSync("web", "w1", "s1")
	assert.Contains(t, env.event(plan.ReasonNodeOutside), "s1")
	env.create("mail", []int{81})
	require.ErrorContains(t, env.sync("mail", "w1", "s1"), "several networks")
	env.edit("mail", annotate(annotation.Network, "k8s-net"))
	env.mustSync("mail", "w1", "s1")
}

func TestFlaw16NoEligibleNode(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80, 81})
	for _, do := range []func() error{
		func() error { return env.sync("web", []string{}...) },
		func() error { return env.lb.UpdateLoadBalancer(t.Context(), "", env.get("web"), nil) },
	} {
		env.mustSync("web")
		env.events()
		require.NoError(t, do())
		for _, r := range grep(env.dump(), webLB) {
			assert.True(t, strings.HasSuffix(r, " []"), r)
		}
		assert.NotEmpty(t, env.event(plan.ReasonNoBackends))
	}
}
