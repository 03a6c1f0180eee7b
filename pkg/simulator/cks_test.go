// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

const cksWorld = `
settings: {endpointURL: "http://192.0.2.1:8080/client/api"}
zones: [{name: z1, publicRanges: [203.0.113.10-203.0.113.60]}, {name: z2, publicRanges: [203.0.113.100-203.0.113.110]}]
serviceOfferings:
  - {name: small, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
  - {name: node, cpus: 2, cpuSpeed: 1000, memoryMiB: 2048}
  - {name: big, cpus: 4, cpuSpeed: 1000, memoryMiB: 4096}
templates: [{name: plain}, {name: ready, forCKS: true}]
accounts:
  - {name: owner, users: [{name: owner}]}
  - {name: mate, users: [{name: mate}]}
  - {name: other, users: [{name: other}]}
projects: [{name: team, owner: owner, members: [mate]}]
vpcs: [{name: v1, cidr: 10.2.0.0/16, account: owner, aclLists: [{name: l1, items: [{number: 1, protocol: tcp, startPort: 80}, {number: 2, protocol: all}, {number: 5, protocol: icmp}]}]}]
networks:
  - {name: plain-net, account: owner, cidr: 10.1.1.0/24}
  - {name: cks-net, account: owner, cidr: 10.1.2.0/24, offering: DefaultNetworkOfferingforKubernetesService}
  - {name: other-net, account: other, cidr: 10.1.3.0/24, offering: DefaultNetworkOfferingforKubernetesService}
  - {name: tier, vpc: v1, acl: l1, cidr: 10.2.1.0/24}
  - {name: closed, vpc: v1, acl: default_deny, cidr: 10.2.2.0/24, state: Implemented}
  - {name: shared, type: Shared, domain: ROOT, cidr: 10.9.0.0/24}
virtualMachines:
  - {name: vm-1, account: owner, nics: [{network: plain-net}]}
  - {name: vm-2, account: owner, nics: [{network: plain-net}]}
  - {name: extra, account: owner, offering: node, template: ready, nics: [{network: cks-net}]}
  - {name: foreign, account: other, nics: [{network: other-net}]}
`

// cksHarness is a world with a supported version of Kubernetes.
type cksHarness struct {
	*harness
	zone, node, version string
}

func startCKS(t *testing.T) *cksHarness {
	t.Helper()
	w, err := LoadWorld(strings.NewReader(cksWorld))
	require.NoError(t, err)
	h := &cksHarness{harness: start(t, Options{World: w, Latency: LatencyProfile{Job: time.Second}})}
	h.zone = id(h.first(h.root("listZones"), "zone"))
	h.node = h.named("listServiceOfferings", "serviceoffering", "node")
	h.version = h.addVersion("1.31.1")
	return h
}

func (h *cksHarness) addVersion(semantic string, more ...string) string {
	h.t.Helper()
	a := h.ok(h.root("addKubernetesSupportedVersion", append([]string{
		"semanticversion", semantic, "mincpunumber", "2", "minmemory", "2048", "url", "http://192.0.2.1/x.iso",
	}, more...)...))
	return id(a.body["kubernetessupportedversion"].(map[string]any))
}

// named finds an object by name through the integration port.
func (h *cksHarness) named(command, kind, name string) string {
	h.t.Helper()
	for _, o := range h.ok(h.root(command, "listall", "true")).items(kind) {
		if o["name"] == name {
			return id(o)
		}
	}
	require.Fail(h.t, "no such object", name)
	return ""
}

func (h *cksHarness) network(name string) string { return h.named("listNetworks", "network", name) }

func (h *cksHarness) vm(name string) string {
	return h.named("listVirtualMachines", "virtualmachine", name)
}

// create asks for a CloudManaged cluster of one control node and one worker.
func (h *cksHarness) create(user string, more ...string) answer {
	h.t.Helper()
	args := map[string]string{
		"name": "c1", "zoneid": h.zone, "kubernetesversionid": h.version, "serviceofferingid": h.node, "size": "1",
	}
	for i := 0; i < len(more); i += 2 {
		args[more[i]] = more[i+1]
		if more[i+1] == "-" {
			delete(args, more[i])
		}
	}
	var pairs []string
	for k, v := range args {
		pairs = append(pairs, k, v)
	}
	return h.post(user, "createKubernetesCluster", pairs...)
}

func (h *cksHarness) cluster(user, id string) map[string]any {
	h.t.Helper()
	return h.first(h.call(user, "listKubernetesClusters", "id", id), "kubernetescluster")
}

func clusterIn(m map[string]any) map[string]any { return m["kubernetescluster"].(map[string]any) }

func TestKubernetesVersions(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	old := h.addVersion("1.14.0", "zoneid", h.zone)
	list := h.ok(h.call("owner", "listKubernetesSupportedVersions")).items("kubernetessupportedversion")
	require.Len(t, list, 2)
	require.Equal(t, "v1.31.1", list[0]["name"])
	require.NotContains(t, list[0], "zoneid")
	require.Equal(t, "v1.14.0-z1", list[1]["name"])
	require.Equal(t, false, list[1]["supportsha"])
	require.Equal(t, false, list[1]["supportsautoscaling"])
	for _, q := range [][]string{{"minimumsemanticversion", "1.20.0"}, {"minimumkubernetesversionid", h.version}, {"keyword", "31"}, {"id", h.version}} {
		require.Len(t, h.ok(h.call("owner", "listKubernetesSupportedVersions", q...)).items("kubernetessupportedversion"), 1, q)
	}
	z2 := h.named("listZones", "zone", "z2")
	require.Len(t, h.ok(h.call("owner", "listKubernetesSupportedVersions", "zoneid", z2)).items("kubernetessupportedversion"), 1)
	h.fails(h.call("owner", "listKubernetesSupportedVersions", "minimumsemanticversion", "x"), 431, wire.CSGeneric, "Invalid version format")
	h.fails(h.call("owner", "addKubernetesSupportedVersion", "semanticversion", "1.31.1"), 432, wire.CSGeneric, "does not exist or is not available")
	for _, bad := range []struct {
		name, value string
		code        int
		text        string
	}{
		{"semanticversion", "x", 431, "Invalid version format. Semantic version needed"},
		{"semanticversion", "1.31", 431, "Invalid version format, 1.31. Semantic version should be specified in MAJOR.MINOR.PATCH format"},
		{"semanticversion", "1.10.9", 530, "1.11.0 is minimum version supported by Kubernetes Service"},
		{"mincpunumber", "1", 530, "Invalid value for mincpunumber parameter. Minimum 2 vCPUs required."},
		{"minmemory", "1024", 530, "Invalid value for minmemory parameter. Minimum 2048MB memory required"},
		{"arch", "z80", 530, "Unsupported arch type: z80"},
		{"url", "", 530, "Invalid URL for ISO specified"},
	} {
		args := map[string]string{"semanticversion": "1.31.2", "mincpunumber": "2", "minmemory": "2048", "url": "http://192.0.2.1/x.iso"}
		args[bad.name] = bad.value
		var pairs []string
		for k, v := range args {
			pairs = append(pairs, k, v)
		}
		h.fails(h.root("addKubernetesSupportedVersion", pairs...), bad.code, wire.CSGeneric, bad.text)
	}
	h.fails(h.root("updateKubernetesSupportedVersion", "id", old, "state", "enabled"), 530, wire.CSGeneric, "Invalid value for state parameter")
	off := h.ok(h.root("updateKubernetesSupportedVersion", "id", old, "state", "Disabled")).body["kubernetessupportedversion"].(map[string]any)
	require.Equal(t, "Disabled", off["state"])
	h.done("admin", h.call("admin", "deleteKubernetesSupportedVersion", "id", old))
	h.broken("admin", h.call("admin", "deleteKubernetesSupportedVersion", "id", old), 530, "Invalid Kubernetes version id specified")
	h.done("owner", h.create("owner"))
	h.broken("admin", h.call("admin", "deleteKubernetesSupportedVersion", "id", h.version), 530, "Existing clusters currently using the version.")
}

func TestCreateKubernetesClusterRefusals(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	z2, small := h.named("listZones", "zone", "z2"), h.named("listServiceOfferings", "serviceoffering", "small")
	inZ2, disabled, noHA := h.addVersion("1.31.2", "zoneid", z2), h.addVersion("1.31.3"), h.addVersion("1.15.0")
	h.ok(h.root("updateKubernetesSupportedVersion", "id", disabled, "state", "Disabled"))
	for _, bad := range []struct {
		args []string
		text string
	}{
		{[]string{"kubernetesversionid", "-"}, "Unable to find given Kubernetes version in supported versions"},
		{[]string{"name", "Bad_Name!"}, "Invalid name for the Kubernetes cluster name: Bad_Name!"},
		{[]string{"controlnodes", "0"}, "Invalid cluster control nodes count: 0"},
		{[]string{"size", "0"}, "Invalid cluster size: 0"},
		{[]string{"size", "-"}, "Invalid cluster size: null"},
		{[]string{"size", "10"}, "Maximum cluster size can not exceed 10. Please contact your administrator"},
		{[]string{"kubernetesversionid", disabled}, "is in Disabled state"},
		{[]string{"kubernetesversionid", inZ2}, "is not available for zone ID: " + h.zone},
		{[]string{"kubernetesversionid", noHA, "controlnodes", "2"}, "HA support is available only for Kubernetes version 1.16.0 and above."},
		{[]string{"serviceofferingid", "-"}, "When serviceofferingid is not specified, service offerings for each node type must be specified"},
		{[]string{"serviceofferingid", small}, "for WORKER nodes is not suitable for the Kubernetes cluster version"},
		{[]string{"keypair", "k"}, "Given SSH key pair with name: k was not found for the account owner"},
		{[]string{"noderootdisksize", "4"}, "Provided node root disk size is lesser than default size of 8GB"},
		{[]string{"dockerregistryurl", "http://r"}, "All the docker private registry parameters (username, password, url) required are specified"},
		{[]string{"dockerregistryurl", "http://r", "dockerregistryusername", "u", "dockerregistrypassword", "p"}, "Private registry for the Kubernetes cluster is an experimental feature."},
		{[]string{"externalloadbalanceripaddress", "x"}, "Invalid external load balancer IP address"},
		{[]string{"externalloadbalanceripaddress", "192.0.2.9"}, "parameter must be specified along with networkid parameter"},
		{[]string{"networkid", h.network("plain-net")}, "Kubernetes service has not been configured properly to provision Kubernetes clusters"},
		{[]string{"networkid", h.network("closed")}, "can not be used for Kubernetes cluster as it uses default deny ACL"},
		{[]string{"networkid", h.network("shared"), "controlnodes", "2"}, "needs an external load balancer IP address."},
		{[]string{"nodeofferings[0].node", "control", "nodeofferings[0].offering", small}, "for CONTROL nodes is not suitable"},
		{[]string{"nodetemplates[0].node", "control", "nodetemplates[0].template", "x"}, "Cannot find a template with ID x"},
	} {
		h.fails(h.create("owner", bad.args...), 530, wire.CSGeneric, bad.text)
	}
	h.fails(h.create("owner", "clustertype", "x"), 431, wire.CSInvalidValue, "Unable to resolve cluster type x to a supported value (CloudManaged, ExternalManaged)")
	h.fails(h.create("owner", "networkid", h.network("other-net")), 531, wire.CSPermission, "permission denied")
	h.fails(h.create("owner", "account", "other"), 431, wire.CSInvalidValue, "Account must be specified with domainId parameter")
	h.fails(h.create("owner", "account", "other", "domainid", h.sim.st.Root().UUID), 531, wire.CSPermission, wire.NoAccessText)
	h.fails(h.create("owner", "zoneid", "-"), 431, wire.CSGeneric, "missing parameter zoneid")
	h.sim.st.Accounts.Rows[len(h.sim.st.Accounts.Rows)-1].Limits = nil
	owner, _ := h.sim.st.AccountIn(h.sim.st.Root(), "owner")
	owner.Limits = map[string]int64{"virtualMachines": 3}
	h.fails(h.create("owner"), 535, wire.CSResourceAlloc, "Maximum amount of resources of Type = 'user_vm'")
	require.Empty(t, h.ok(h.root("listKubernetesClusters", "listall", "true")).items("kubernetescluster"))
	h.sim.st.Settings.EndpointURL = ""
	h.fails(h.create("owner"), 530, wire.CSGeneric, "Global setting endpoint.url has to be set to the Management Server's API end point")
}

func TestKubernetesServiceDisabled(t *testing.T) {
	t.Parallel()
	h := start(t, Options{World: &World{
		Settings: Settings{KubernetesDisabled: true}, Zones: []Zone{{Name: "z", PublicRanges: []string{"203.0.113.10-203.0.113.19"}}},
	}})
	h.fails(h.root("listKubernetesClusters"), 432, wire.CSGeneric, "Unknown API command: listKubernetesClusters")
	a := h.call("admin", "listKubernetesClusters")
	h.fails(a, 401, 0, wire.AuthText)
	require.Equal(t, "errorresponse", a.key)
	caps := h.ok(h.root("listCapabilities")).body["capability"].(map[string]any)
	require.Equal(t, false, caps["kubernetesserviceenabled"])
	for _, a := range h.ok(h.root("listApis")).items("api") {
		require.NotContains(t, a["name"], "Kubernetes")
	}
}
