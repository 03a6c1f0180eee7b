// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

const nowhere = "00000000-0000-4000-8000-000000000000" // an id of no object

func TestParameterErrors(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	h.set("long", strings.Repeat("n", 256), "control", "a\x01b").play(`
		d/a createLoadBalancerRule publicipid={ip} name=n algorithm=roundrobin publicport=8090 privateport=1 protocol=tcp openfirewall=false
		+ name= => 431/4350 Invalid value provided for API arg: name
		+ name={long} => 431/9999 Value greater than max allowed length 255 for param: loadBalancerRuleName
		+ publicport=http => 431/9999 due to invalid value http for parameter publicport
		+ publicipid=203.0.113.20 => 431/9999 Invalid parameter publicipid value=203.0.113.20 due to incorrect long value format
		+ name={control} => 431/9999 containing illegal ASCII non-printable characters for parameter name
		+ publicport=8081 => 431/9999 LB service provider cannot support this rule
		+ publicport=53 protocol=udp => 431/9999 LB service provider cannot support this rule
		+ protocol=sctp => 431/9999 protocol sctp is not in valid protocols [tcp, udp, tcp-proxy, ssl]
		+ publicport=80 => 537/9999 The range specified, 80-80, conflicts with rule FirewallRule {
		+ publicport=91 name=- NAME=names-in-any-case
		+ publicport=92 fordisplay=false  # dropped for users
		d/a listLoadBalancerRules name=n => count 2
		admin createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=93 privateport=1 openfirewall=false fordisplay=false
		d/a listLoadBalancerRules name=n => count 2
		admin listLoadBalancerRules name=n listall=true => count 3
		d/a createTags resourceids=x resourcetype=UserVm tags[x].key=k => 430/9999 tags[x].key
	`)
}

// TestNumbers are as large as Java's, and an empty one is none.
func TestNumbers(t *testing.T) {
	t.Parallel()
	start(t, Options{}).play(`
		k8s-owner listVirtualMachines page= pagesize=" " => count 3
		k8s-owner listVirtualMachines page=x pagesize=1 => 431/9999 Unable to execute API command listvirtualmachines due to invalid value x for
		+ page=1.5 => 431/9999 invalid value 1.5
		+ page=2147483648 => 431/9999 invalid value 2147483648
		+ page=9223372036854775808 => 431/9999 invalid value 9223372036854775808
		+ page=2147483647 pagesize=3 => count 3 /virtualmachine=-
		+ page=0 pagesize=2 => /virtualmachine#=2
	`)
}

// Emoji pass the signature and break the database.
func TestTextsThatTheDatabaseDoesNotTake(t *testing.T) {
	t.Parallel()
	startLB(t).set("rocket", "x\U0001F680").play(`
		d/a listVirtualMachines keyword={rocket} => 530/4250 {internal}
		d/a createLoadBalancerRule publicipid={ip} name={rocket} algorithm=roundrobin publicport=90 privateport=80 => 530/4250 {internal}
		d/a createTags resourceids={ip} resourcetype=PublicIpAddress tags[0].key=k tags[0].value={rocket} => 530/4250 {internal}
		d/a listVirtualMachines keyword=ä€
		d/a listVirtualMachines nosuchparameter={rocket}
	`)
}

func TestPaging(t *testing.T) {
	t.Parallel()
	start(t, Options{}).play(`
		k8s-owner listVirtualMachines => count 3 /count=3 > /virtualmachine.0.id=one /virtualmachine.2.id=three
		+ page=1 pagesize=2 => count 3 /virtualmachine#=2
		+ page=2 pagesize=2 => count 3 /virtualmachine#=1
		+ page=0 pagesize=2 => count 3 /virtualmachine#=2
		+ page=9 pagesize=2 => count 3 /virtualmachine=-
		+ page=1 pagesize=0 => count 3 /virtualmachine=-
		+ pagesize=-1 => count 3 /virtualmachine#=3
		+ retrieveonlyresourcecount=true => count 3 /virtualmachine=-
		+ bogus=x => count 3
		+ name=nope => count 0 /count=- /virtualmachine=-  # an empty list has neither count nor array
		+ page=1 => 431/9999 "pagesize" parameter is required when "page" is specified
		+ pagesize=5 => 431/9999 "page" parameter is required when "pagesize" is specified
		+ page=1 pagesize=501 => 431/4350 Page size can't exceed max allowed page size value: 500
		+ page=1 pagesize=-1 => 431/4350 Can't specify page parameter when pagesize is -1 (Unlimited)
		+ ids={one},{three} => count 2
		+ ids={one},{nowhere} => 431/9999 Invalid parameter ids value={nowhere}
		+ id={one} ids={one} => 431/4350 Specify either id or ids
		+ details=bogus => 431/4350 non permitted value
		+ details=nics => serviceofferingname=-
		+ details=nics,servoff => serviceofferingname="Small Instance"
	`)
}

// TestPagePair: page and pagesize are looked at after all parameters, and before the command looks at any of them.
func TestPagePair(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	for _, call := range []string{
		"listVirtualMachines details=bogus", "listPublicIpAddresses state=Free allocatedonly=true", "listNetworks networkfilter=bogus",
		"listLoadBalancerRules account=b projectid={projects:p}", "listLoadBalancerRuleInstances id={rule}", "listLBStickinessPolicies", "listTags resourcetype=bogus",
	} {
		h.play("d/a " + call + ` page=1 => 431/9999 "pagesize" parameter is required when "page" is specified
			d/a ` + call + ` pagesize=5 => 431/9999 "page" parameter is required when "pagesize" is specified`)
		command, args, _ := strings.Cut(h.resolve(call), " ")
		pairs := []string{"pagesize", "-1"}
		for _, p := range strings.Fields(args) {
			name, value, _ := strings.Cut(p, "=")
			pairs = append(pairs, name, value)
		}
		require.NotContains(t, h.call("d/a", command, pairs...).raw, "parameter is required", call)
	}
	h.play(`
		d/a listVirtualMachines page=1 id={nowhere} => 431/9999 Invalid parameter id value={nowhere}
		d/a listLoadBalancerRuleInstances page=1 => 431/9999 due to missing parameter id
		d/a listCapabilities page=1  # no list
	`)
}

// TestJavaFields: texts about lengths name the fields of the server's commands.
func TestJavaFields(t *testing.T) {
	t.Parallel()
	const tooLong = "431/9999 Value greater than max allowed length 255 for param: "
	h := startLB(t)
	h.set("long", strings.Repeat("x", 256), "t", h.netID("tier"), "too", tooLong).play(`
		d/a createLBStickinessPolicy lbruleid={rule} methodname=SourceBased name={long} => {too}lbStickinessPolicyName
		d/a createLBStickinessPolicy lbruleid={rule} name=x methodname={long} => {too}stickinessMethodName
		d/a associateIpAddress networkid={networks:own} ipaddress={long} => {too}ipAddress
		d/a createNetworkACL networkid={t} protocol=tcp traffictype={long} => {too}trafficType
		d/a updateLoadBalancerRule id={rule} name={long} => {too}loadBalancerName
		d/a createNetworkACL networkid={t} protocol=tcp startport=x aclid={nowhere} => 431/9999 due to invalid value x for parameter startport
	`)
}

// TestMissingParametersInOrder: of several that are missing, the first of the server's command is named.
func TestMissingParametersInOrder(t *testing.T) {
	t.Parallel()
	h := startYAML(t, lbWorld)
	for command, first := range map[string]string{
		"createTags": "tags", "deleteTags": "resourcetype", "createLoadBalancerRule": "algorithm", "createFirewallRule": "ipaddressid",
		"addNicToVirtualMachine": "virtualmachineid", "removeNicFromVirtualMachine": "virtualmachineid",
		"createVPC": "zoneid",
	} {
		h.play("d/a " + command + " => 431/9999 due to missing parameter " + first)
	}
}

// TestCapacityBeforeLimit: an address must be there before it is counted.
func TestCapacityBeforeLimit(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	owner, ok := h.sim.st.Accounts.Find(func(a *store.Account) bool { return a.Name == "a" })
	require.True(t, ok)
	h.sim.mu.Lock()
	owner.Limits = map[string]int64{"publicIPs": 0}
	h.sim.mu.Unlock()
	h.play(`
		d/a associateIpAddress networkid={networks:own} => 532/4280 Maximum number of public IP addresses for account: a has been exceeded.
		+ ipaddress=203.0.113.8 => 533/9999 Insufficient address capacity
		+ ipaddress=192.0.2.1 => 533/9999 Insufficient address capacity
		+ ipaddress=x => 533/9999 Insufficient address capacity
	`)
}

// TestOwnerOfAddress: the owner comes first, and an account counts with its domain only.
func TestOwnerOfAddress(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	h.set("own", h.netID("own"), "d", h.idOf("domains", "d"), "zone", h.idOf("zones", "z")).play(`
		admin associateIpAddress networkid={own} account=root => account=a
		d/da associateIpAddress networkid={own} account=nobody => account=a
		d/a associateIpAddress networkid={own} account=a domainid={d} => account=a
		admin associateIpAddress zoneid={zone} account=b domainid={d} => account=b
		d/a associateIpAddress account=b domainid={d} => 531/4365 Can't create/list resources for account b in domain
		d/a associateIpAddress account=a domainid={ROOT} => 531/4365 Can't create/list resources for account a in domain
		admin associateIpAddress zoneid={zone} account=x domainid={d} => 431/4350 Unable to find account x in domain
		d/b associateIpAddress networkid={own} => 531/4365 {denied}
		d/a associateIpAddress account=a => 431/4350 Unable to figure out zone
		d/a associateIpAddress zoneid={zone} => 431/4350 Account has more than one isolated network in the zone
	`)
}

const projectWorld = `
zones: [{name: z, publicRanges: [203.0.113.1-203.0.113.9]}]
domains: [{path: ROOT/d}]
accounts:
  - {name: a, domain: d, users: [{name: a}]}
  - {name: b, domain: d, users: [{name: b}]}
  - {name: da, domain: d, role: Domain Admin, users: [{name: da}]}
projects: [{name: p, owner: a}, {name: paused, owner: a}]
vpcs: [{name: v, cidr: 10.2.0.0/16, account: a}]
networks:
  - {name: own, account: a}
  - {name: proj, project: p}
  - {name: tier, vpc: v, cidr: 10.2.1.0/24, acl: default_allow}
  - {name: shared, type: Shared, domain: d, cidr: 172.30.0.0/24}
virtualMachines:
  - {name: own-1, account: a, nics: [{network: own}]}
  - {name: proj-1, project: p, nics: [{network: proj}]}
  - {name: tier-1, account: a, nics: [{network: tier}]}
  - {name: b-1, account: b, nics: [{network: shared}]}
`

// TestOwnerFilters follows section 1.10 of the API contract.
func TestOwnerFilters(t *testing.T) {
	t.Parallel()
	h := startYAML(t, projectWorld)
	h.sim.st.Projects.Rows[1].State = store.ProjectSuspended
	h.set("p", h.idOf("projects", "p"), "pvm", h.vmID("proj-1"), "own", h.vmID("own-1"), "net", h.netID("own"))
	h.set("d", h.idOf("domains", "d")).play(`
		d/a listVirtualMachines => count 2 name=own-1 /virtualmachine.1.name=tier-1
		d/a listVirtualMachines listall=true => count 2 name=own-1 /virtualmachine.1.name=tier-1
		d/a listVirtualMachines id={pvm} => count 0  # a project's VM is hidden without projectid
		d/a listVirtualMachines id={pvm} projectid={p} => count 1 name=proj-1 account=- project=p
		d/a listVirtualMachines projectid=-1 => count 1 name=proj-1
		d/a listVirtualMachines projectid=-1 listall=true => count 3 /virtualmachine.1.name=proj-1
		d/b listVirtualMachines id={own} => count 0
		d/da listVirtualMachines => count 0
		d/da listVirtualMachines listall=true => count 3 name=own-1 /virtualmachine.1.name=tier-1 /virtualmachine.2.name=b-1
		d/da listVirtualMachines id={own} => count 1 name=own-1
		admin listVirtualMachines => count 0
		admin listVirtualMachines listall=true => count 3 /virtualmachine.2.name=b-1
		admin listVirtualMachines id={pvm} => count 1 name=proj-1
		admin listVirtualMachines account=a domainid={d} => count 2
		d/b listVirtualMachines projectid={p} => 432/9999 is not available for this account/user in project [{p}]
		d/a listVirtualMachines projectid={p} account=a => 431/4350 Account and projectId can't be specified together
		d/a associateIpAddress projectid={projects:paused} networkid={net} => 531/4365 no longer active
		d/b listNetworks => count 1  # the domain's shared network
		admin listNetworks id={net} => count 0
		d/a addAccountToProject projectid={p} account=b
		d/b listVirtualMachines projectid={p} => count 1 name=proj-1
	`)
}

// TestValuesOfParameters: empty, malformed and odd values, by the type of the parameter and whether it is required or has a since mark.
func TestValuesOfParameters(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	one := h.vmID("own-1")
	h.set("one", one, "two", h.vmID("own-2"), "ONE", strings.ToUpper(one), "tab", "a\tb", "empty", "431/4350 Invalid value provided for API arg:").play(`
		d/a queryAsyncJobResult jobid= => {empty} jobid
		d/a createTags resourceids= resourcetype=UserVm tags[0].key=k tags[0].value=v => {empty} resourceids
		d/a createTags resourceids={one} resourcetype=UserVm tags= => {empty} tags
		d/a createTags resourceids= => 431/9999 due to missing parameter tags  # missing before empty
		d/a createLoadBalancerRule name=n algorithm=source publicport=1 privateport= => {empty} privateport
		d/a createFirewallRule ipaddressid= => {empty} ipaddressid  # the first one counts
		d/a listVirtualMachines id= => 431/9999 Invalid parameter id value= due
		d/a listVirtualMachines id={ONE} => count 1
		d/a listVirtualMachines id=0 => 431/9999 due to invalid value. Invalid value provided for API arg: id
		d/a listVirtualMachines networkid=-7 => 431/9999 due to invalid value. Invalid value provided for API arg: networkid
		d/a listVirtualMachines networkid={nowhere} page=1 => 431/9999 Invalid parameter networkid value={nowhere}

		# ids with a since mark
		d/a listVirtualMachines serviceofferingid=-1 => count 0
		d/a listVirtualMachines serviceofferingid=1 => count 4
		d/a listVirtualMachines serviceofferingid=nope => count 4
		d/a listVirtualMachines serviceofferingid= => count 4
		d/a listVirtualMachines serviceofferingid={nowhere} => 431/9999 Invalid parameter serviceofferingid value={nowhere}
		d/a listVirtualMachines templateid=nope => 431/9999 Invalid parameter templateid value=nope  # without one

		# lists; a blank is part of an element
		d/a listVirtualMachines ids=nope => count 0
		d/a listVirtualMachines ids=nope,{one} => count 1
		d/a listVirtualMachines ids= id={one} => count 1
		d/a listVirtualMachines ids=,{one},,{two}, => count 2
		d/a listZones ids=nope => count 0
		d/a listFirewallRules networkid=nope => count 0
		d/a listVirtualMachines ids="{one}, {one}" => count 1
		d/a assignToLoadBalancerRule id={rule} virtualmachineids="{one}, {one}" => 431/9999 Invalid parameter virtualmachineids value= {one}
		d/a assignToLoadBalancerRule id={rule} virtualmachineids=,
		d/a listLoadBalancerRuleInstances id={rule} => count 0  # nobody was named
		d/a createFirewallRule ipaddressid={ip} protocol=tcp cidrlist="10.0.0.0/8, 192.0.2.0/24" => 431/9999 Source CIDRs formatting error 
		d/a createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=81 privateport=1 cidrlist=10.0.0.0/8,,192.0.2.0/24, => \
			cidrlist="10.0.0.0/8 192.0.2.0/24"
		d/a listVirtualMachines details="min, nics" => 431/4350 The details parameter contains a non permitted value

		# tags and maps
		d/a listVirtualMachines tags[0].key=k => 431/4350 No value is passed in for key k
		d/a listNetworks tags[0].x=k => 431/4350 No value is passed in for key null
		d/a listVirtualMachines tags[0].key=k page=1 => 431/9999 "pagesize" parameter is required
		d/a listVirtualMachines tags[0].key=k tags[0].value= => count 0
		d/a listTags resourcetype=bogus => count 0
		d/a listTags resourceid= => count 0
		d/a listVirtualMachines tags=k => 431/9999 due to invalid value k for parameter tags
		d/a listVirtualMachines tags= => 431/9999 due to invalid value  for parameter tags

		d/a listVirtualMachines page=" 1" pagesize=5 => 431/9999 due to invalid value  1 for parameter page
		d/a listVirtualMachines page=" " pagesize=-1 => count 4
		d/a listVirtualMachines keyword={tab} => 431/9999 illegal ASCII non-printable characters for parameter keyword
		d/a listVirtualMachines name= => count 0
		d/a listVirtualMachines state= networkid={networks:own} => count 0
		d/a listVirtualMachines keyword= => count 4
		d/a listVirtualMachines hypervisor=bogus => 431/4350 Invalid HypervisorType bogus
		d/a listVirtualMachines hypervisor=kvm => count 0
	`)
	require.Equal(t, 200, h.call("d/a", "listVirtualMachines", "keyword", "a\r\nb").status)
}

// TestKeywords: admins find VMs by the hypervisor's name too, everybody by the address of a static NAT; users are found by
// the names of user and account, by the state, and by the name of an account type.
func TestKeywords(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	h.set("vm", h.vmID("own-1")).play(`
		admin listVirtualMachines id={vm} > instancename=instance
		admin listVirtualMachines listall=true keyword={instance} => count 1
		d/a listVirtualMachines keyword={instance} => count 0
		d/a deleteLoadBalancerRule id={rule}
		d/a enableStaticNat ipaddressid={ip} virtualmachineid={vm}
		d/a listVirtualMachines keyword=203.0.113.8 => name=own-1
	`)
	for filter, want := range map[string]string{
		"keyword=da": "1", "keyword=enab": "3", "keyword=domain_admin": "1", "keyword=DOMAIN": "0", "keyword=normal": "2", "keyword=none": "0",
		"username=DA": "1", "username=d%": "1", "username=_": "2", "username=d": "0",
	} {
		h.play("d/da listUsers listall=true " + filter + " => count " + want)
	}
}

// TestProjectOfACall: the project that a call is about, and so who is refused, is read from the parameters as they were sent.
func TestProjectOfACall(t *testing.T) {
	t.Parallel()
	h := startYAML(t, lbWorld)
	p := h.idOf("projects", "p")
	require.Equal(t, "errorresponse", h.call("d/b", "deleteProject", "id", p).key)
	h.set("p", p, "P", strings.ToUpper(p), "stranger", "does not exist or is not available for this account/user in project ["+p).play(`
		d/b deleteProject id={p} => 432/9999 The API [deleteProject] {stranger}
		d/b listVirtualMachines projectid={p} => 432/9999 The API [listVirtualMachines] {stranger}
		d/b listVirtualMachines projectid={P} => 432/9999 The API [listVirtualMachines] {stranger}
		d/b listVirtualMachines projectId={p} => 531/4365 can't access project id=
		d/a listVirtualMachines projectId={p} => count 1
		d/b listVirtualMachines projectid=-1
		d/da deleteProject id={p} => job 530 1 VirtualMachine to clean up
	`)
}

// TestTagsOfAProject: they are found without projectid, by whoever may see the project.
func TestTagsOfAProject(t *testing.T) {
	t.Parallel()
	h := startYAML(t, lbWorld)
	h.set("p", h.idOf("projects", "p")).play(`
		d/a createTags resourceids={p} resourcetype=Project tags[0].key=k => job 431 No value is passed in for key k
		+ tags[0].value=v
		d/a listTags resourcetype=project resourceid={p} => value=v
		d/a listTags resourceid={p} => count 0
		d/b listTags resourcetype=Project resourceid={p} => 531/4365 can't access project id=
	`)
}
