// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// vmBed is a simulator with the ids that deployments need.
type vmBed struct {
	*harness
	zone, offering, template, network string
}

func newVMBed(t *testing.T, job time.Duration) vmBed {
	t.Helper()
	b := vmBed{harness: start(t, Options{Latency: LatencyProfile{Job: job}})}
	b.zone = id(b.first(b.call(owner, "listZones"), "zone"))
	b.offering = id(b.first(b.call(owner, "listServiceOfferings"), "serviceoffering"))
	b.template = id(b.first(b.call(owner, "listTemplates", "templatefilter", "featured"), "template"))
	b.network = id(b.first(b.call(owner, "listNetworks", "keyword", "k8s-net"), "network"))
	return b
}

func (b vmBed) deploy(user string, pairs ...string) answer {
	b.t.Helper()
	return b.call(user, "deployVirtualMachine", append([]string{"zoneid", b.zone, "serviceofferingid", b.offering, "templateid", b.template}, pairs...)...)
}

// made deploys a VM and returns it.
func (b vmBed) made(user string, pairs ...string) map[string]any {
	b.t.Helper()
	return b.done(user, b.deploy(user, pairs...))["virtualmachine"].(map[string]any)
}

func (b vmBed) vm(user string, pairs ...string) map[string]any {
	b.t.Helper()
	return b.first(b.call(user, "listVirtualMachines", pairs...), "virtualmachine")
}

func TestDeploymentStates(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 9*time.Second)
	a := b.ok(b.deploy(owner, "name", "new-1", "networkids", b.network, "userdata", base64.StdEncoding.EncodeToString([]byte("#!")), "details[0].a", "b"))
	v := b.vm(owner, "id", a.str("id"))
	require.Equal(t, store.VMStopped, v["state"], "the first list shows it stopped")
	require.Equal(t, a.str("jobid"), v["jobid"])
	require.Equal(t, map[string]any{"deployvm": "true", "a": "b"}, v["details"])
	require.NotEmpty(t, v["ipaddress"])
	require.NotContains(t, v, "lastupdated")
	require.NotContains(t, v, "pooltype")
	b.clock.Step(4 * time.Second)
	v = b.vm(owner, "id", a.str("id"))
	require.Equal(t, store.VMStarting, v["state"])
	require.Contains(t, v, "hostcontrolstate")
	b.clock.Step(5 * time.Second)
	v = b.vm(owner, "id", a.str("id"), "userdata", "true")
	require.Equal(t, store.VMRunning, v["state"])
	require.Equal(t, map[string]any{"a": "b"}, v["details"])
	require.Equal(t, "IyE=", v["userdata"])
	require.NotContains(t, v, "jobid")
	require.NotContains(t, b.vm(owner, "id", a.str("id")), "userdata")

	stopped := b.made(owner, "networkids", b.network, "startvm", "false")
	require.Equal(t, store.VMStopped, stopped["state"])
	require.True(t, strings.HasPrefix(stopped["name"].(string), "VM-"), "a name is made from the id")
	b.done(owner, b.call(owner, "startVirtualMachine", "id", id(stopped)))
	require.Equal(t, store.VMRunning, b.vm(owner, "id", id(stopped))["state"])

	b.sim.Inject(Fault{Command: "deployVirtualMachine", Kind: FaultJobFails, Text: "no"})
	a = b.deploy(owner, "name", "broken", "networkids", b.network)
	b.broken(owner, a, 530, "no")
	v = b.vm(owner, "id", a.str("id"))
	require.Equal(t, store.VMError, v["state"], "it stays listed")
	require.NotContains(t, v["nic"].([]any)[0], "isolationuri")
}

func TestDeploymentRefusals(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	b.made(owner, "name", "taken", "networkids", b.network)
	unknown := "00000000-0000-4000-8000-000000000000"
	for name, tc := range map[string]struct {
		user  string
		pairs []string
		code  int
		cs    int
		text  string
	}{
		"name":           {owner, []string{"name", "under_score"}, 431, wire.CSGeneric, "Invalid value provided for API arg: name - it can contain ASCII letters"},
		"duplicate":      {owner, []string{"name", "TAKEN", "networkids", b.network}, 431, wire.CSInvalidValue, "The vm with hostName TAKEN already exists in the network domain: "},
		"network":        {owner, []string{"networkids", unknown}, 431, wire.CSGeneric, "Invalid parameter networkids value=" + unknown},
		"both":           {owner, []string{"networkids", b.network, "iptonetworklist[0].networkid", b.network}, 431, wire.CSInvalidValue, "ipToNetworkMap can't be specified along with networkIds or ipAddress"},
		"ip map network": {owner, []string{"iptonetworklist[0].networkid", unknown}, 431, wire.CSInvalidValue, "Unable to translate and find entity with networkId: " + unknown},
		"bad address":    {owner, []string{"networkids", b.network, "ipaddress", "10.1.1"}, 431, wire.CSInvalidValue, "Invalid specified IPv4 address 10.1.1"},
		"no address":     {"admin", []string{"networkids", b.network, "ipaddress", "192.0.2.1", "account", "k8s", "domainid", b.root1()}, 530, wire.CSRuntime, "Unable to acquire Guest IP address for network Network {"},
		"user's view":    {owner, []string{"networkids", b.network, "ipaddress", "192.0.2.1"}, 530, wire.CSRuntime, wire.InternalErrorText},
		"foreign":        {"admin", []string{"networkids", b.network}, 531, wire.CSPermission, "Unable to use network with id= " + b.network + ", permission denied"},
		"acting":         {owner, []string{"networkids", b.network, "account", "admin", "domainid", b.root1()}, 531, wire.CSPermission, wire.NoAccessText},
		"account alone":  {"admin", []string{"account", "k8s"}, 431, wire.CSInvalidValue, "Account must be specified with domainId parameter"},
		"no account":     {"admin", []string{"account", "nobody", "domainid", b.root1()}, 431, wire.CSInvalidValue, "Unable to find account by name nobody in domain with specified id"},
		"host":           {owner, []string{"hostid", id(b.first(b.root("listHosts"), "host"))}, 531, wire.CSPermission, "Parameter hostid can only be specified by a Root Admin"},
		"user data":      {owner, []string{"userdata", "%%"}, 431, wire.CSInvalidValue, "User data is not base64 encoded"},
		"key":            {owner, []string{"keypair", "none"}, 431, wire.CSInvalidValue, "Not all specified keyparis exist"},
		"custom":         {owner, []string{"details[0].cpuNumber", "4"}, 431, wire.CSInvalidValue, "should not be specified for static service offering"},
		"hypervisor":     {owner, []string{"hypervisor", "KVM"}, 431, wire.CSInvalidValue, "is different from the hypervisor type of the template"},
		"root disk":      {owner, []string{"rootdisksize", "0"}, 431, wire.CSInvalidValue, "Root disk size should be a positive number."},
		"mac":            {owner, []string{"macaddress", "x"}, 431, wire.CSInvalidValue, "Mac address is not valid: x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.fails(b.deploy(tc.user, tc.pairs...), tc.code, tc.cs, tc.text)
		})
	}
	b.fails(b.call(owner, "deployVirtualMachine", "zoneid", b.zone, "serviceofferingid", b.offering), 530, wire.CSRuntime, wire.InternalErrorText)
	b.fails(b.call(owner, "deployVirtualMachine", "zoneid", b.zone, "templateid", b.template), 431, wire.CSGeneric, "missing parameter serviceofferingid")
}

// root1 is the id of the domain ROOT.
func (b vmBed) root1() string { return b.sim.st.Root().UUID }

func TestDefaultNetwork(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	b.ok(b.root("createAccount", "accounttype", "0", "username", "tenant", "email", "t@example.com", "firstname", "T", "lastname", "T", "password", "password"))
	deploy := func(pairs ...string) answer {
		return b.root("deployVirtualMachine", append([]string{"zoneid", b.zone, "serviceofferingid", b.offering, "templateid", b.template,
			"account", "tenant", "domainid", b.root1()}, pairs...)...)
	}
	first := b.done("admin", deploy("name", "a"))["virtualmachine"].(map[string]any)
	require.Equal(t, "tenant", first["account"])
	require.Equal(t, "tenant", first["username"], "the owner's user")
	n := b.first(b.root("listNetworks", "account", "tenant", "domainid", b.root1()), "network")
	require.Equal(t, "tenant-network", n["name"])
	require.Equal(t, store.NetImplemented, n["state"])
	second := b.done("admin", deploy("name", "b", "ipaddress", "10.1.1.77"))["virtualmachine"].(map[string]any)
	require.Equal(t, "10.1.1.77", second["ipaddress"])
	require.Len(t, b.root("listVirtualMachines", "networkid", id(n), "listall", "true").items("virtualmachine"), 2)
	require.Empty(t, b.root("listVirtualMachines", "networkid", id(n)).items("virtualmachine"), "without listall an admin sees own VMs")
	b.fails(deploy("name", "c", "ipaddress", "10.1.1.77"), 530, wire.CSRuntime, "Unable to acquire Guest IP address")
	b.sim.st.Networks.Add(&store.Network{
		Name: "more", Zone: b.sim.st.Zones.Rows[0], Owner: b.sim.st.VMs.Rows[len(b.sim.st.VMs.Rows)-1].Owner, Typ: store.TypeIsolated,
		Offering: b.sim.st.NetOffs.Rows[0], Domain: b.sim.st.Root(),
	})
	b.fails(deploy("name", "d"), 431, wire.CSInvalidValue, "More than 1 default Isolated networks are found for account Account [")
}

func TestExpungeFreesEverything(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	rule := id(b.first(b.call(owner, "listLoadBalancerRules"), "loadbalancerrule"))
	v := b.made(owner, "name", "gone", "networkids", b.network, "ipaddress", "10.1.1.99", "group", "g", "diskofferingid",
		id(b.first(b.call(owner, "listDiskOfferings", "name", "Small"), "diskoffering")))
	b.done(owner, b.call(owner, "assignToLoadBalancerRule", "id", rule, "virtualmachineids", id(v)))
	b.done(owner, b.call(owner, "createTags", "resourcetype", "UserVm", "resourceids", id(v), "tags[0].key", "k", "tags[0].value", "v"))
	require.Len(t, b.call(owner, "listVolumes", "virtualmachineid", id(v)).items("volume"), 2)
	b.broken("admin", b.call("admin", "expungeVirtualMachine", "id", id(v)), 530, "Please destroy vm with specified vmId before expunge")
	b.done(owner, b.call(owner, "destroyVirtualMachine", "id", id(v)))
	require.Equal(t, "Destroy", b.first(b.call("admin", "listVolumes", "virtualmachineid", id(v), "listall", "true"), "volume")["state"])
	b.fails(b.deploy(owner, "name", "again", "networkids", b.network, "ipaddress", "10.1.1.99"), 530, wire.CSRuntime, wire.InternalErrorText)
	b.done("admin", b.call("admin", "expungeVirtualMachine", "id", id(v)))
	require.Empty(t, b.call("admin", "listVolumes", "virtualmachineid", id(v), "listall", "true").items("volume"))
	require.Empty(t, b.call(owner, "listTags", "resourceid", id(v)).items("tag"))
	for _, m := range b.call(owner, "listLoadBalancerRuleInstances", "id", rule).items("loadbalancerruleinstance") {
		require.NotEqual(t, id(v), id(m))
	}
	b.made(owner, "name", "gone", "networkids", b.network, "ipaddress", "10.1.1.99")
}

func TestUpdateOfVMs(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	b.made(owner, "name", "one", "networkids", b.network)
	v := b.made(owner, "name", "two", "networkids", b.network)
	update := func(user string, pairs ...string) answer {
		return b.call(user, "updateVirtualMachine", append([]string{"id", id(v)}, pairs...)...)
	}
	b.fails(update(owner, "name", "one"), 431, wire.CSInvalidValue, "The vm with hostName one already exists in the network domain: ")
	b.fails(update(owner, "haenable", "true"), 431, wire.CSInvalidValue, "Can't enable ha for the vm as it's created from the Service offering having HA disabled")
	b.fails(update(owner, "details[0].rootDiskController", "x"), 431, wire.CSInvalidValue, "You're not allowed to add or edit the read-only setting: rootDiskController")
	b.fails(update(owner, "details[0].rootdisksize", "9"), 431, wire.CSInvalidValue, "You're not allowed to add or edit the restricted setting: rootdisksize")
	b.ok(update(owner, "details[0].a", "1", "displayname", "Second", "group", "workers", "deleteprotection", "true"))
	got := b.vm(owner, "id", id(v))
	require.Equal(t, map[string]any{"a": "1"}, got["details"])
	require.Equal(t, "Second", got["displayname"])
	require.Equal(t, "workers", got["group"])
	g := id(b.first(b.call(owner, "listInstanceGroups", "name", "work"), "instancegroup"))
	require.Len(t, b.call(owner, "listVirtualMachines", "groupid", g).items("virtualmachine"), 1)
	b.broken(owner, b.call(owner, "destroyVirtualMachine", "id", id(v)), 431, "has delete protection enabled and cannot be deleted.")
	b.ok(update(owner, "cleanupdetails", "true", "deleteprotection", "false"))
	require.Empty(t, b.vm(owner, "id", id(v))["details"])
	b.ok(b.call(owner, "deleteInstanceGroup", "id", g))
	require.NotContains(t, b.vm(owner, "id", id(v)), "group")

	medium := id(b.first(b.call(owner, "listServiceOfferings", "virtualmachineid", id(v)), "serviceoffering"))
	b.fails(b.call(owner, "changeServiceForVirtualMachine", "id", id(v), "serviceofferingid", medium), 431, wire.CSInvalidValue, "not dynamically scalable")
	b.done(owner, b.call(owner, "stopVirtualMachine", "id", id(v)))
	b.done(owner, b.call(owner, "scaleVirtualMachine", "id", id(v), "serviceofferingid", medium))
	require.Equal(t, medium, b.vm(owner, "id", id(v))["serviceofferingid"])
	b.broken(owner, b.call(owner, "scaleVirtualMachine", "id", id(v), "serviceofferingid", medium), 431, "since it already has the requested service offering")
	b.broken(owner, b.call(owner, "rebootVirtualMachine", "id", id(v)), 431, "is not running, unable to reboot it")
}

func TestAffinityAndHosts(t *testing.T) {
	t.Parallel()
	w := ExampleWorld()
	w.Zones[0].Hosts = []string{"h1", "h2"}
	b := vmBed{harness: start(t, Options{World: w})}
	b.zone, b.offering, b.template = id(b.first(b.call(owner, "listZones"), "zone")), id(b.first(b.call(owner, "listServiceOfferings"), "serviceoffering")),
		id(b.first(b.call(owner, "listTemplates", "templatefilter", "executable"), "template"))
	b.network = id(b.first(b.call(owner, "listNetworks", "keyword", "k8s-net"), "network"))
	b.fails(b.call(owner, "createAffinityGroup", "name", "apart", "type", "other"), 431, wire.CSInvalidValue, "invalid affinity group type: other")
	g := b.done(owner, b.call(owner, "createAffinityGroup", "name", "apart", "type", store.AntiAffinity))["affinitygroup"].(map[string]any)
	b.fails(b.call(owner, "createAffinityGroup", "name", "apart", "type", store.AntiAffinity), 431, wire.CSInvalidValue, "a group with name apart already exists.")
	v1 := b.made(owner, "networkids", b.network, "affinitygroupids", id(g))
	v2 := b.made(owner, "networkids", b.network, "affinitygroupnames", "apart")
	require.Len(t, b.call(owner, "listAffinityGroups", "id", id(g)).items("affinitygroup")[0]["virtualmachineIds"], 2)
	host := func(v map[string]any) string { return b.vm("admin", "id", id(v))["hostid"].(string) }
	require.NotEqual(t, host(v1), host(v2))
	third := b.deploy(owner, "networkids", b.network, "affinitygroupids", id(g))
	b.broken(owner, third, 533, "Please check the affinity groups provided")
	require.Equal(t, store.VMError, b.vm(owner, "id", third.str("id"))["state"])
	require.Len(t, b.call("admin", "listVirtualMachines", "hostid", host(v1), "affinitygroupid", id(g), "listall", "true").items("virtualmachine"), 1)

	free := b.made(owner, "networkids", b.network)
	var others []string
	for _, h := range b.root("listHosts", "type", "Routing").items("host") {
		if id(h) != host(free) {
			others = append(others, id(h))
		}
	}
	b.fails(b.call(owner, "migrateVirtualMachine", "virtualmachineid", id(free), "hostid", others[0]), 432, wire.CSGeneric, "The API [migrateVirtualMachine]")
	b.done("admin", b.call("admin", "migrateVirtualMachine", "virtualmachineid", id(free), "hostid", others[0]))
	require.Equal(t, others[0], host(free))
	b.broken("admin", b.call("admin", "migrateVirtualMachine", "virtualmachineid", id(free), "hostid", others[0]), 431, "already present on this host")
	b.done(owner, b.call(owner, "deleteAffinityGroup", "id", id(g)))
	require.Empty(t, b.vm(owner, "id", id(v1))["affinitygroup"])
	require.Empty(t, b.call(owner, "listAffinityGroups").items("affinitygroup"))
}

func TestListFiltersOfVMs(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	b.ok(b.call(owner, "registerSSHKeyPair", "name", "mine", "publickey", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUf me"))
	v := b.made(owner, "name", "filtered", "displayname", "Filtered One", "networkids", b.network, "keypairs", "mine", "startvm", "false")
	require.Equal(t, "mine", v["keypairs"])
	for name, pairs := range map[string][]string{
		"name":     {"name", "FILTERED"},
		"keyword":  {"keyword", "tered on"},
		"key":      {"keypair", "mine"},
		"state":    {"state", "stopped"},
		"ids":      {"ids", id(v)},
		"paged":    {"keyword", "filtered", "page", "1", "pagesize", "1"},
		"isolated": {"forvirtualnetwork", "true", "name", "filtered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := b.call(owner, "listVirtualMachines", pairs...).items("virtualmachine")
			require.Len(t, got, 1)
			require.Equal(t, id(v), id(got[0]))
		})
	}
	for name, pairs := range map[string][]string{
		"display name": {"name", "Filtered One"}, "part": {"name", "filter"}, "key": {"keypair", "other"}, "leased": {"name", "filtered", "leased", "true"},
		"shared": {"name", "filtered", "forvirtualnetwork", "false"}, "hypervisor": {"hypervisor", "KVM"}, "ha": {"haenable", "true"},
	} {
		t.Run("not by "+name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, b.ok(b.call(owner, "listVirtualMachines", pairs...)).items("virtualmachine"))
		})
	}
	m := b.first(b.call(owner, "listVirtualMachinesMetrics", "id", id(v)), "virtualmachine")
	require.Equal(t, "0.50 GiB", m["memorytotal"])
	require.NotContains(t, m, "domainpath")
}

func TestSSHKeys(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	made := h.ok(h.call(owner, "createSSHKeyPair", "name", "k")).body["keypair"].(map[string]any)
	require.Contains(t, made["privatekey"], "BEGIN RSA PRIVATE KEY")
	h.fails(h.call(owner, "createSSHKeyPair", "name", "k"), 431, wire.CSInvalidValue, "A key pair with name 'k' already exists.")
	h.fails(h.call(owner, "registerSSHKeyPair", "name", "x", "publickey", "rubbish"), 431, wire.CSInvalidValue, "Public key is invalid")
	listed := h.first(h.call(owner, "listSSHKeyPairs"), "sshkeypair")
	require.Equal(t, made["fingerprint"], listed["fingerprint"])
	require.NotContains(t, listed, "privatekey")
	require.Len(t, strings.Split(listed["fingerprint"].(string), ":"), 16)
	require.Empty(t, h.ok(h.call("admin", "listSSHKeyPairs")).items("sshkeypair"))
	require.Len(t, h.call("admin", "listSSHKeyPairs", "listall", "true").items("sshkeypair"), 1)
	h.ok(h.call(owner, "deleteSSHKeyPair", "name", "k"))
	h.fails(h.call(owner, "deleteSSHKeyPair", "name", "k"), 431, wire.CSInvalidValue, "does not exist for account k8s in specified domain id")
}

func TestAssignVirtualMachine(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	v := b.made(owner, "name", "moved", "networkids", b.network)
	b.ok(b.root("createAccount", "accounttype", "0", "username", "heir", "email", "t@example.com", "firstname", "T", "lastname", "T", "password", "password"))
	move := func() answer {
		return b.root("assignVirtualMachine", "virtualmachineid", id(v), "account", "heir", "domainid", b.root1())
	}
	b.fails(move(), 431, wire.CSInvalidValue, "in [Running] state.")
	b.done(owner, b.call(owner, "stopVirtualMachine", "id", id(v)))
	b.ok(move())
	got := b.vm("admin", "id", id(v))
	require.Equal(t, "heir", got["account"])
	require.Equal(t, "heir-network", got["nic"].([]any)[0].(map[string]any)["networkname"])
	require.Empty(t, b.call(owner, "listVirtualMachines", "id", id(v)).items("virtualmachine"))
}

// TestInfrastructureLists: what an admin sees hangs together.
func TestInfrastructureLists(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	zone := id(h.first(h.root("listZones"), "zone"))
	pod := h.first(h.root("listPods", "zoneid", zone), "pod")
	cluster := h.first(h.root("listClusters", "podid", id(pod)), "cluster")
	host := h.first(h.root("listHosts", "clusterid", id(cluster)), "host")
	require.Equal(t, cluster["name"], host["clustername"])
	require.Equal(t, "Up", h.first(h.root("listStoragePools", "clusterid", id(cluster)), "storagepool")["state"])
	require.Len(t, h.root("listSystemVms").items("systemvm"), 2)
	require.Len(t, h.root("listSystemVms", "systemvmtype", "consoleproxy").items("systemvm"), 1)
	require.Equal(t, "Simulator", h.first(h.root("listHypervisors", "zoneid", zone), "hypervisor")["name"])
	require.Len(t, h.root("listDiskOfferings").items("diskoffering"), 4)
	tmpl := h.first(h.root("listTemplates", "templatefilter", "all"), "template")
	require.Equal(t, tmpl["ostypeid"], id(h.first(h.root("listOsTypes", "description", tmpl["ostypename"].(string)), "ostype")))
	require.NotEmpty(t, h.root("listOsCategories").items("oscategory"))
	for command, pairs := range map[string][]string{
		"listTemplates": {"templatefilter", "self"}, "listIsos": {"isofilter", "featured"}, "listSnapshots": nil, "listAffinityGroups": nil,
	} {
		require.Empty(t, h.ok(h.call(owner, command, pairs...)).body, command)
	}
	h.fails(h.call(owner, "listTemplates", "templatefilter", "all"), 431, wire.CSInvalidValue, "Filter all can be specified by admin only")
	h.fails(h.call(owner, "listTemplates", "templatefilter", "bogus"), 530, wire.CSGeneric, wire.InternalErrorText)
	types := h.call(owner, "listAffinityGroupTypes").items("affinityGroupType")
	require.True(t, slices.ContainsFunc(types, func(m map[string]any) bool { return m["type"] == store.AntiAffinity }))
}
