// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

const lbWorld = `
zones: [{name: z, publicRanges: [203.0.113.1-203.0.113.30]}]
domains: [{path: ROOT/d}]
accounts:
  - {name: a, domain: d, users: [{name: a}]}
  - {name: b, domain: d, users: [{name: b}]}
  - {name: da, domain: d, role: Domain Admin, users: [{name: da}]}
projects: [{name: p, owner: a}]
vpcs: [{name: v, cidr: 10.2.0.0/16, account: a}]
networks:
  - {name: own, account: a, cidr: 10.1.1.0/24}
  - {name: other, account: a, cidr: 10.1.2.0/24}
  - {name: foreign, account: b, cidr: 10.1.3.0/24}
  - {name: proj, project: p, cidr: 10.1.4.0/24}
  - {name: tier, vpc: v, cidr: 10.2.1.0/24}
  - {name: inner, vpc: v, cidr: 10.2.2.0/24, offering: DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB}
virtualMachines:
  - {name: own-1, account: a, nics: [{network: own, ip: 10.1.1.11, secondary: [10.1.1.111]}]}
  - {name: own-2, account: a, nics: [{network: own, ip: 10.1.1.12}, {network: other, ip: 10.1.2.12}]}
  - {name: other-1, account: a, nics: [{network: other, ip: 10.1.2.11}]}
  - {name: inner-1, account: a, nics: [{network: inner, ip: 10.2.2.11}]}
  - {name: b-1, account: b, nics: [{network: foreign}]}
  - {name: p-1, project: p, nics: [{network: proj}]}
publicIPs:
  - {address: 203.0.113.8, network: own}
  - {address: 203.0.113.9, vpc: v}
  - {address: 203.0.113.10, network: foreign}
`

// startLB starts lbWorld with a rule for TCP on port 80 of 203.0.113.8, whose id is {rule}.
func startLB(t *testing.T) *env {
	t.Helper()
	h := startYAML(t, lbWorld)
	return h.set("ip", h.ipID("203.0.113.8"), "rule", h.rule("80", "protocol", "tcp"), "custom", "11111111-2222-4333-8444-555555555555")
}

// rule makes a rule on 203.0.113.8 and returns its id; pairs are added to the call.
func (h *env) rule(port string, pairs ...string) string {
	h.t.Helper()
	return id(h.done("d/a", h.call("d/a", "createLoadBalancerRule", append([]string{
		"publicipid", h.ipID("203.0.113.8"), "name", "lb-" + port, "algorithm", "roundrobin", "publicport", port, "privateport", "30080",
		"openfirewall", "false",
	}, pairs...)...))["loadbalancer"].(map[string]any))
}

func TestStickiness(t *testing.T) {
	t.Parallel()
	startLB(t).play(`
		d/a assignToLoadBalancerRule id={rule} virtualmachineids={vms:own-1}
		d/a listLBStickinessPolicies lbruleid={rule} => stickinesspolicy#=0
		d/a createLBStickinessPolicy lbruleid={rule} name=s1 methodname=sourcebased description=d param[0].name=expire param[0].value=30m => \
			lbruleid={rule} account=a domainpath=- stickinesspolicy.0.name=s1 stickinesspolicy.0.params=map[expire:30m] > stickinesspolicy.0.id=first
		d/a listLoadBalancerRules id={rule} => state=Active

		# A second one takes the first one's place when its job ends, a third cannot come before that.
		& d/a createLBStickinessPolicy lbruleid={rule} name=s2 methodname=LbCookie param[0].name=nocache > second
		d/a listLBStickinessPolicies lbruleid={rule} => stickinesspolicy#=2
		d/a createLBStickinessPolicy lbruleid={rule} name=s3 methodname=LbCookie => 431/4350 Already two policies attached
		wait 1m
		d/a listLBStickinessPolicies id={second} => stickinesspolicy#=1 stickinesspolicy.0.params=map[nocache:null]
		d/a deleteLBStickinessPolicy id={first} => 431/9999 entity does not exist

		d/a createLBStickinessPolicy lbruleid={rule} name=x methodname=Bogus => 431/4350 Failed to match Stickiness method name for LB rule:
		+ methodname=AppCookie param[0].name=expire param[0].value=1m => 431/4350 Failed : Stickiness policy does not support param name :expire
		+ methodname=AppCookie param[0].name=length => 431/4350 Failed : Value expected for the Param :length
		+ methodname=SourceBased param[0].name=expire param[0].value=30 => 431/4350 Cause: expire is not in timeformat: 30
		+ methodname=SourceBased param[0].name=TableSize param[0].value=big => 431/4350 Cause: tablesize is not in size format: big
		+ methodname=AppCookie param[0].name=length param[0].value=x => 431/4350 Cause: length is not a number: x
		+ methodname=AppCookie param[0].name=holdtime param[0].value=3y => 431/4350 Cause: holdtime is not in timeformat: 3y
		d/b createLBStickinessPolicy lbruleid={rule} name=n methodname=LbCookie => 531/4365 {denied}
		d/b listLBStickinessPolicies lbruleid={rule} => 531/4365 {denied}
		d/b deleteLBStickinessPolicy id={second} => job 530 {denied}
		d/a listLBStickinessPolicies => 431/4350 load balancer rule ID and stickiness policy ID can't be null
		d/a createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=81 privateport=1 > other
		d/a listLBStickinessPolicies lbruleid={other} id={second} => 431/4350 stickiness policy ID doesn't belong to lbId

		d/a listLBStickinessPolicies lbruleid={rule} => stickinesspolicy#=1
		d/a deleteLBStickinessPolicy id={second}

		# A policy goes with its rule.
		d/a createLBStickinessPolicy lbruleid={rule} name=s4 methodname=SourceBased > stickinesspolicy.0.id=fourth
		d/a deleteLoadBalancerRule id={rule}
		d/a listLBStickinessPolicies id={fourth} => 431/9999 entity does not exist
	`)
}

func TestStickinessRefusedByRouter(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	remove := h.sim.Inject(Fault{Command: "createLBStickinessPolicy", Kind: FaultJobFails})
	h.play(`d/a createLBStickinessPolicy lbruleid={rule} name=s methodname=LbCookie => job 530 Failed to create stickiness policy`)
	remove()
	h.play(`d/a listLBStickinessPolicies lbruleid={rule} => stickinesspolicy#=0`)
}

func TestInternalLoadBalancer(t *testing.T) {
	t.Parallel()
	h := startLB(t).set("inner", "")
	h.set("inner", h.idOf("networks", "inner"))
	h.play(`
		d/a createLoadBalancer name=ilb algorithm=roundrobin sourceport=80 instanceport=30080 scheme=internal networkid={inner} \
			sourceipaddressnetworkid={inner} => loadbalancerrule.0.state=Add loadbalancerrule.0.sourceport=80 loadbalancerinstance#=0 > lb \
			sourceipaddress=at
		+ name=ilb > again sourceipaddress=elsewhere
		+ sourceport=443 sourceipaddress={at} name=ilb-443 => sourceipaddress={at} > second
		+ sourceipaddress={at} => 537/9999 The range specified, 80-80, conflicts with rule  # the port is taken
		+ sourceipaddress=10.9.9.9 => 431/4350 The requested IP is not in the network's CIDR subnet.
		+ sourceipaddress=10.2.2.11 => 533/9999 Unable to acquire IP address for network  # of a NIC
		+ sourceipaddress=10.2.2.1 => 533/9999 Unable to acquire IP address for network  # the gateway
		+ sourceipaddress=10.2.x.9 => 431/9999 For input string: "x"
		+ scheme=Public => 431/4350 Invalid value for scheme. Supported value is internal
		+ networkid={networks:tier} => 431/4350 Scheme Internal is not supported by the network offering NetworkOffering {"id":
		+ networkid={networks:foreign} => 531/4365 {denied}
		+ algorithm=bogus => 431/4350 Invalid algorithm: bogus
		+ sourceport=70000 => 431/4350 Invalid value for source port: 70000
		+ instanceport=-1 => 431/4350 Invalid value for instance port: -1
		+ networkid=nope => 431/9999 Invalid parameter networkid value=nope
		+ sourceipaddressnetworkid= => 431/4350 Invalid value provided for API arg: sourceipaddressnetworkid

		# Members come and go as on a public rule.
		d/a assignToLoadBalancerRule id={lb} virtualmachineids={vms:inner-1}
		d/a listLoadBalancerRuleInstances id={lb} => count 1
		d/a listLoadBalancers id={lb} => loadbalancerrule.0.state=Active loadbalancerinstance.0.ipaddress=10.2.2.11 loadbalancerinstance.0.name~i-
		d/a assignToLoadBalancerRule id={lb} virtualmachineids={vms:own-1} => job 530 Failed to assign load balancer rule
		d/a updateLoadBalancerRule id={lb} name=ilb => job 530  # stored, but the answer cannot be built
		d/a listLoadBalancerRules id={lb} => count 0  # public rules only

		d/a createTags resourceids={lb} resourcetype=LoadBalancer tags[0].key=k tags[0].value=v
		d/a listLoadBalancers => count 3
		+ networkid={inner} => count 3
		+ networkid={networks:tier} => count 0
		+ sourceipaddress={at} => count 2
		+ name=ILB-443 => count 1
		+ keyword=lb-4 => count 1
		+ tags[0].key=k tags[0].value=v => count 1
		+ scheme=INTERNAL => count 3
		+ page=2 pagesize=2 => count 3 /loadbalancer#=1
		+ projectid=-1 => count 0
		+ sourceipaddressnetworkid={inner} => count 3
		+ id={rule} => count 0
		+ scheme=public => 431/4350 Invalid value for scheme
		admin listLoadBalancers => count 0
		+ listall=true => count 3

		admin updateLoadBalancer id={second} fordisplay=false
		d/a listLoadBalancers => count 2
		d/b deleteLoadBalancer id={lb} => job 530 {denied}
		d/a deleteLoadBalancer id={lb}
		d/a deleteLoadBalancer id={lb} => 431/9999 entity does not exist
		d/a deleteLoadBalancerRule id={again}
		root listLoadBalancers listall=true => count 1
	`)
	require.NotEqual(t, h.vars["at"], h.vars["elsewhere"], "the same ports take another address")
}

// Tags of load balancer rules outlive the rules, and are deleted by the ids of these. Tags of addresses do not.
func TestTagsOfDeletedRulesStay(t *testing.T) {
	t.Parallel()
	startLB(t).play(`
		d/a createLoadBalancerRule publicipid={ip} name=lb algorithm=source publicport=81 privateport=1 protocol=tcp > other
		d/a createTags resourceids={rule} resourcetype=LoadBalancer tags[0].key=cluster tags[0].value=c1
		+ resourceids={other}
		+ resourceids={ip} resourcetype=PublicIpAddress
		d/a deleteLoadBalancerRule id={rule}
		d/a disassociateIpAddress id={ip}
		d/a listTags resourcetype=LoadBalancer key=cluster value=c1 => count 2
		d/a listTags => count 2  # the tag of the address is gone
		d/a listTags resourcetype=LoadBalancer resourceid={rule} => count 0
		d/a deleteTags resourcetype=LoadBalancer resourceids={rule},{other} tags[0].key=cluster
		d/a listTags => count 0
		d/a deleteTags resourcetype=LoadBalancer resourceids={rule} tags[0].key=cluster => job 530 Failed to delete tags
	`)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	h.set("one", h.vmID("own-1"), "two", h.vmID("own-2"), "failed", "Failed to assign load balancer rule")
	members := func(want ...string) {
		t.Helper()
		h.play("d/a listLoadBalancerRuleInstances id={rule} lbvmips=true => count " + want[0] + " /lbrulevmidip.0.lbvmipaddresses=" + want[1])
	}
	h.play(`
		d/a assignToLoadBalancerRule id={rule} virtualmachineids=
		d/a listLoadBalancerRules id={rule} => state=Add  # nobody was named
		d/a assignToLoadBalancerRule id={rule} => job 530 {failed}
		+ virtualmachineids={vms:other-1} => job 530 {failed}
		+ virtualmachineids={one},{vms:other-1} => job 530 {failed}
		+ virtualmachineids={vms:b-1} => job 530 {failed}
		+ virtualmachineids={vms:p-1} => job 530 {failed}
		+ vmidipmap[0].vmid={two} vmidipmap[0].vmip=10.1.2.12 => job 530 {failed}  # of another NIC
		+ vmidipmap[0].vmid={two} vmidipmap[0].vmip=10.1.1.11 => job 530 {failed}  # of another VM
		+ vmidipmap[0].vmid={two} vmidipmap[0].vmip=x => job 431 Invalid ip address x passed in vmidipmap for vmid {two}
		+ vmidipmap[0].vmid={two} => job 431 Invalid ip address null passed in vmidipmap for vmid {two}
		+ vmidipmap[0].vmid=nope vmidipmap[0].vmip=10.1.1.11 => job 431 Unable to find virtual machine ID: nope
		+ virtualmachineids=00000000-0000-4000-8000-000000000000 => 431/9999 Invalid parameter virtualmachineids
		d/b assignToLoadBalancerRule id={rule} virtualmachineids={one} => job 530 {failed}`)
	members("0", "-")

	// By id the NIC of the rule's network counts; named twice is named once.
	h.play(`d/a assignToLoadBalancerRule id={rule} virtualmachineids={two},{two}`)
	members("1", "[10.1.1.12]")
	h.play(`
		d/a listLoadBalancerRules id={rule} => state=Active
		d/a assignToLoadBalancerRule id={rule} virtualmachineids={two} => job 530 {failed}
		d/a removeFromLoadBalancerRule id={rule} vmidipmap[0].vmid={two} vmidipmap[0].vmip=10.1.1.99 => job 431 Failed to remove instance from
		d/a removeFromLoadBalancerRule id={rule} virtualmachineids={two}
		# In both ways a VM gets both addresses, and only the named ones are looked up first.
		d/a assignToLoadBalancerRule id={rule} vmidipmap[0].vmid={one} vmidipmap[0].vmip=10.1.1.111 virtualmachineids={one}`)
	members("1", `"[10.1.1.111 10.1.1.11]"`)
	h.play(`d/a removeFromLoadBalancerRule id={rule} vmidipmap[0].vmid={one} vmidipmap[0].vmip=10.1.1.111`)
	members("1", "[10.1.1.11]")
	h.play(`
		d/a assignToLoadBalancerRule id={rule} vmidipmap[0].vmid={one} vmidipmap[0].vmip=10.1.1.111 virtualmachineids={one} \
			=> job 530 Entity already exists
		+ virtualmachineids=-
		d/a removeFromLoadBalancerRule id={rule} => job 431 Failed to remove instance from load balancer rule
		+ virtualmachineids={vms:b-1}
		+ vmidipmap[0].vmid={one} vmidipmap[0].vmip=10.1.1.111 virtualmachineids={one}`)
	members("1", "[10.1.1.11]") // the map narrows what goes
	h.play(`
		d/a removeFromLoadBalancerRule id={rule} virtualmachineids={one},{two}
		d/a listLoadBalancerRules id={rule} => state=Add  # the last one is gone
		d/a listLoadBalancerRuleInstances id={rule} applied=false => count 0
		d/a listLoadBalancerRuleInstances id={rule} page=1 => 431/9999 "pagesize" parameter is required
		d/b listLoadBalancerRuleInstances id={rule} => 531/4365 {denied}

		# Jobs on one rule run side by side.
		& d/a assignToLoadBalancerRule id={rule} virtualmachineids={one} > jobid=first
		& d/a assignToLoadBalancerRule id={rule} virtualmachineids={one} > jobid=same
		& d/a assignToLoadBalancerRule id={rule} virtualmachineids={two} > jobid=other
		d/a listLoadBalancerRuleInstances id={rule} => count 0  # not before the jobs end
		wait 1m
		d/a queryAsyncJobResult jobid={first} => /jobstatus=1
		d/a queryAsyncJobResult jobid={same} => /jobstatus=2
		d/a queryAsyncJobResult jobid={other} => /jobstatus=1
		d/a listLoadBalancerRuleInstances id={rule} => count 2
	`)
}

func TestRuleOfAnotherKind(t *testing.T) {
	t.Parallel()
	startLB(t).play(`
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=22 > fw
		d/a updateLoadBalancerRule id={fw} => job 431 Unable to find load balancer rule:
		d/a deleteLoadBalancerRule id={fw} => job 431 Unable to find load balancer rule:
		d/a assignToLoadBalancerRule id={fw} => job 431 Unable to find load balancer rule:
		d/a removeFromLoadBalancerRule id={fw} => job 431 Unable to find load balancer rule:
		d/a listLoadBalancerRuleInstances id={fw} => 530/4250 {internal}
		d/a listLoadBalancerRules id={fw} => count 0
		d/a listFirewallRules id={rule} => count 0
		d/a createLBStickinessPolicy lbruleid={fw} name=n methodname=LbCookie => 431/4350 not present
		d/a listLBStickinessPolicies lbruleid={fw} => count 0
		d/a deleteFirewallRule id={rule} => job 431 having purpose Firewall
	`)
}

func TestCreateRuleSource(t *testing.T) {
	t.Parallel()
	h := startYAML(t, lbWorld)
	h.set("vpc", h.ipID("203.0.113.9"))
	h.play(`
		d/a createLoadBalancerRule name=n algorithm=source privateport=30080 publicport=80 => 431/4350 Can't define IP owner. Either specify
		+ account=a domainid={domains:d} => 431/9999 Unable to create load balance rule; can't find/allocate source IP
		+ publicipid={ips:203.0.113.10} => 531/4365 {denied}
		+ publicipid={ips:203.0.113.29} => 431/4350 invalid IP address ID
		+ publicipid={vpc} => 431/9999 is not associated with any network
		+ publicipid={vpc} zoneid={zones:z} => 431/9999 Account has more than one isolated network in the zone
		+ publicipid={vpc} networkid={networks:own} => 431/9999 is not assigned to the network
		+ publicipid={vpc} networkid={networks:inner} => 431/9999 Scheme Public is not supported by the network offering
		d/a listPublicIpAddresses id={vpc} => associatednetworkid=-  # a refused rule leaves the address unbound
		d/a createLoadBalancerRule name=n algorithm=source privateport=30080 publicport=80 publicipid={vpc} networkid={networks:tier}
		d/a listPublicIpAddresses id={vpc} => associatednetworkid={networks:tier}
	`)
}

// TestOpenFirewall: the related rule is made with the load balancer rule, not by its job.
func TestOpenFirewall(t *testing.T) {
	t.Parallel()
	h := startYAML(t, lbWorld)
	h.set("ip", h.ipID("203.0.113.8")).play(`
		& d/a createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=80 privateport=1 protocol=tcp
		d/a listFirewallRules ipaddressid={ip} => state=Add
		wait 1m
		d/a listFirewallRules ipaddressid={ip} => state=Active
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=90 endport=99
		d/a createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=95 privateport=1 protocol=tcp \
			=> 537/9999 The range specified, 95-95
		+ publicport=80 => 537/9999 The range specified, 80-80, conflicts with rule FirewallRule {
		d/a listLoadBalancerRules keyword=95 => count 0
		d/a listFirewallRules ipaddressid={ip} => count 2
	`)
	h.sim.Inject(Fault{Command: "createLoadBalancerRule", Kind: FaultJobFails})
	h.play(`
		d/a createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=85 privateport=1 => job 530 Failed to create load balancer
		d/a listFirewallRules ipaddressid={ip} => count 2  # both rules are taken back
		d/a listLoadBalancerRules => count 1
	`)
}

func TestDeleteRule(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	h.sim.Inject(Fault{Command: "deleteLoadBalancerRule", Kind: FaultJobFails, Count: 1, Caller: "a"})
	h.play(`
		d/b deleteLoadBalancerRule id={rule} => job 530 {denied}
		& d/a deleteLoadBalancerRule id={rule}
		d/a listLoadBalancerRules id={rule} => state=Deleting  # while the job is pending
		wait 1m
		d/a listLoadBalancerRules id={rule} => state=Add  # rolled back
		& d/a deleteLoadBalancerRule id={rule} > jobid=one
		& d/a deleteLoadBalancerRule id={rule} > jobid=two
		d/a createLBStickinessPolicy lbruleid={rule} name=n methodname=LbCookie => 431/4350 is in deleting state
		& d/a createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=80 privateport=1 openfirewall=false > next  # a rule \
			on its way out
		wait 1m
		d/a queryAsyncJobResult jobid={one} => /jobstatus=1
		d/a queryAsyncJobResult jobid={two} => /jobstatus=1
		d/a deleteLoadBalancerRule id={rule} => 431/9999 entity does not exist
		d/a listLoadBalancerRules id={next} => state=Add
		d/a createFirewallRule ipaddressid={ip} protocol=udp startport=53 > fw
	`)
	// The firewall keeps a rule in state Deleting when the router refuses; trying again helps.
	h.sim.Inject(Fault{Command: "deleteFirewallRule", Kind: FaultJobFails, Count: 1})
	h.play(`
		d/a deleteFirewallRule id={fw} => job 530 Failed to delete firewall rule
		d/a listFirewallRules id={fw} => state=Deleting
		d/a deleteFirewallRule id={fw}
	`)
}

func TestAdminOnlyFields(t *testing.T) {
	t.Parallel()
	h := startYAML(t, lbWorld)
	h.set("rule", h.rule("80", "protocol", "tcp", "fordisplay", "false"), "custom", "11111111-2222-4333-8444-555555555555")
	h.play(`
		d/a listLoadBalancerRules id={rule} => fordisplay=-  # dropped for users
		root updateLoadBalancerRule id={rule} protocol=tcp fordisplay=false customid={custom}
		d/a listLoadBalancerRules id={custom} => count 0
		root listLoadBalancerRules id={custom} => fordisplay=false
	`)
}

func TestTagKinds(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	st := h.sim.st
	account, ok := st.AccountIn(st.Domains.Rows[1], "a")
	require.True(t, ok)
	for typ, id := range map[string]string{
		"UserVm": "{vms:own-1}", "LoadBalancer": "{rule}", "PublicIpAddress": "{ip}", "Network": "{networks:own}",
		"Vpc": st.VPCs.Rows[0].UUID, "Project": "{projects:p}", "account": account.UUID, "USER": account.Users[0].UUID,
	} {
		h.set("typ", typ, "id", h.resolve(id)).play(`
			d/a createTags resourcetype={typ} resourceids={id} tags[0].key=k tags[0].value={typ} tags[1].key=k2 tags[1].value=v customer=c
			d/a listTags resourcetype={typ} resourceid={id} key=K projectid=-1 listall=true => count 1 value={typ} customer=c
		`)
	}
	h.set("one", h.vmID("own-1"), "two", h.vmID("own-2")).play(`
		d/a listTags key=k => resourcetype=Vpc /tag.6.resourcetype=Account  # descending by type
		d/a createTags resourcetype=Bogus resourceids=x tags[0].key=k tags[0].value=v => job 431 Invalid resource type Bogus
		+ resourcetype=zone => job 431 The resource type zone doesn't support resource tags
		+ resourcetype=Volume => job 431 Unable to find resource by uuid x and type Volume
		d/a createTags resourcetype=UserVm resourceids={one} tags[0].key=n tags[0].value=v tags[1].key=K2 tags[1].value=v \
			=> job 530 tag K2 already on UserVm
		d/a createTags resourcetype=UserVm resourceids={one} tags[0].key=n => job 431 No value is passed in for key n
		+ resourceids={two},{two} tags[0].value=v => job 530 tag n already on UserVm with id
		d/b createTags resourcetype=UserVm resourceids={one} tags[0].key=z tags[0].value=v => job 530 {denied}
		d/a listTags resourceid={one} => count 2  # nothing of a refused call stays
		d/a createTags resourcetype=UserVm resourceids={two} tags[0].key=n tags[0].value=1 tags[1].key=n tags[1].value=2
		d/a listTags resourceid={two} => count 1 value=2  # the last value of a key counts

		d/b deleteTags resourcetype=UserVm resourceids={one} => job 530 {denied}
		d/a deleteTags resourcetype=UserVm resourceids={one} tags[0].key=k tags[0].value=other => job 530 Failed to delete tags
		+ resourceids=nope => job 530 Failed to delete tags
		+ tags[0].key=K tags[0].value=USERVM
		+ tags[0].key=- tags[0].value=-
		d/a listTags resourceid={one} => count 0
	`)
}

func TestFirewallConflicts(t *testing.T) {
	t.Parallel()
	startLB(t).play(`
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=80 endport=90
		d/a createFirewallRule ipaddressid={ip} protocol=icmp icmptype=8 icmpcode=0
		+ cidrlist=10.0.0.0/8
		d/a createFirewallRule ipaddressid={ip} protocol=icmp
		d/a createFirewallRule ipaddressid={ip} protocol=udp
		+ startport=80 endport=90
		+ cidrlist=10.0.0.0/8
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=85 cidrlist=10.0.0.0/8

		d/a createFirewallRule ipaddressid={ip} protocol=TCP startport=90 endport=99 \
			=> 537/4360 The range specified, 90-99, conflicts with rule FirewallRule {
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=85 cidrlist=10.0.0.0/8,1.1.1.0/24 => 537/4360 The range specified, 85-85,
		d/a createFirewallRule ipaddressid={ip} protocol=icmp icmptype=8 icmpcode=0 => 431/4350 New rule conflicts with existing rule
		d/a createFirewallRule ipaddressid={ip} protocol=udp => 537/4360 There is already a firewall rule specified with protocol = udp and no
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=1 endport=70000 => 431/4350 Public port range is an invalid value: 70000
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=70000 => 431/4350 publicPort is an invalid value: 70000
		+ startport=9 endport=8 => 431/4350 Start port can't be bigger than end port
		+ protocol=sctp startport=9 => 431/4350 Protocol sctp is not supported in zone
		+ protocol=icmp startport=9 => 431/4350 Can't specify start/end port when protocol is ICMP
		+ startport=- icmptype=9 => 431/4350 Can specify icmpCode and icmpType for ICMP protocol only
		+ startport=1 cidrlist=10.0.0.1 => 431/9999 Source CIDRs formatting error 10.0.0.1
	`)
}

// TestUpdateAsksTheRouter: a rule that was made before there was a router is refused with its next change.
func TestUpdateAsksTheRouter(t *testing.T) {
	t.Parallel()
	h := startYAML(t, lbWorld)
	state := func(state string) {
		n, _ := h.sim.st.Networks.Get(h.idOf("networks", "own"))
		h.sim.mu.Lock()
		defer h.sim.mu.Unlock()
		n.State = state
	}
	state(store.NetAllocated)
	h.set("stats", h.rule("8081", "protocol", "tcp"), "udp", h.rule("53", "protocol", "udp"), "good", h.rule("80", "protocol", "tcp"))
	state(store.NetImplemented)
	h.play(`
		d/a updateLoadBalancerRule id={stats} name=x => job 431 Modifications in lb rule
		d/a updateLoadBalancerRule id={udp} name=x => job 431 are not supported.
		d/a updateLoadBalancerRule id={good} protocol=udp => job 431 are not supported.
		d/a updateLoadBalancerRule id={good} protocol=sctp => job 431 protocol sctp is not in valid protocols [tcp, udp, tcp-proxy, ssl]
		d/a updateLoadBalancerRule id={udp} protocol=tcp
	`)
	old := releaseEnv(t, "4.21.0")
	old.set("rule", old.rule("80", "protocol", "tcp"))
	old.play(`d/a updateLoadBalancerRule id={rule} protocol=ssl => job 431 protocol ssl is not in valid protocols [tcp, udp, tcp-proxy]`)
}
