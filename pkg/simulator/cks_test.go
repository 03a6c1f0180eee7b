// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

const cksWorld = `
settings: {endpoint.url: "http://192.0.2.1:8080/client/api"}
zones: [{name: z1, publicRanges: [203.0.113.10-203.0.113.60]}, {name: z2, publicRanges: [203.0.113.100-203.0.113.110]},
  {name: z3, disabled: true, publicRanges: [203.0.113.120]}]
serviceOfferings:
  - {name: small, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
  - {name: node, cpus: 2, cpuSpeed: 1000, memoryMiB: 2048}
  - {name: big, cpus: 4, cpuSpeed: 1000, memoryMiB: 4096}
accounts:
  - {name: owner, users: [{name: owner}]}
  - {name: mate, users: [{name: mate}]}
  - {name: other, users: [{name: other}]}
projects: [{name: team, owner: owner, members: [mate]}]
vpcs:
  - {name: v1, cidr: 10.2.0.0/16, account: owner, aclLists: [{name: l1, items: [
      {number: 1, protocol: tcp, startPort: 80}, {number: 2, protocol: all}, {number: 5, protocol: icmp}]}]}
networks:
  - {name: plain-net, account: owner, cidr: 10.1.1.0/24}
  - {name: cks-net, account: owner, cidr: 10.1.2.0/24, offering: DefaultNetworkOfferingforKubernetesService}
  - {name: other-net, account: other, cidr: 10.1.3.0/24, offering: DefaultNetworkOfferingforKubernetesService}
  - {name: tier, vpc: v1, acl: l1, cidr: 10.2.1.0/24}
  - {name: closed, vpc: v1, acl: default_deny, cidr: 10.2.2.0/24}
  - {name: shared, type: Shared, domain: ROOT, cidr: 10.9.0.0/24}
virtualMachines:
  - {name: vm-1, account: owner, nics: [{network: plain-net}]}
  - {name: vm-2, account: owner, nics: [{network: plain-net}]}
  - {name: extra, account: owner, offering: node, nics: [{network: cks-net}]}
  - {name: foreign, account: other, nics: [{network: other-net}]}
  - {name: behind, account: owner, nics: [{network: closed}]}
`

// startCKS starts cksWorld with a supported version of Kubernetes.
func startCKS(t *testing.T) *env {
	t.Helper()
	return startCKSWith(t, Options{})
}

func startCKSWith(t *testing.T, o Options) *env {
	t.Helper()
	w, err := LoadWorld(strings.NewReader(cksWorld))
	require.NoError(t, err)
	o.World, o.Latency = w, LatencyProfile{Job: time.Second}
	h := start(t, o)
	h.set("zone", h.idOf("zones", "z1"), "small", h.idOf("offerings", "small"))
	h.set("node", h.idOf("offerings", "node"), "big", h.idOf("offerings", "big"))
	h.set("cksnet", h.netID("cks-net"), "vm1", h.vmID("vm-1"), "vm2", h.vmID("vm-2"), "extra", h.vmID("extra"))
	h.play("root addKubernetesSupportedVersion semanticversion=1.31.1 mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso > version")
	return h
}

// newCluster asks for a cluster of one control node and one worker.
const newCluster = "owner createKubernetesCluster name=c1 zoneid={zone} kubernetesversionid={version} serviceofferingid={node} size=1"

func TestCloudManagedCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	h.play(`
		& ` + newCluster + ` name=web size=2 controlnodes=2 > k
		owner listKubernetesClusters id={k} => state=Starting
		owner getKubernetesClusterConfig id={k} => 530/9999 Setup is in progress for Kubernetes cluster : web
		owner deleteKubernetesCluster id={k} => job 530 in state: Starting
		owner listKubernetesClusters id={k} => state=Running associatednetworkname=web-network cpunumber=8 memory=8192 virtualmachines#=4 \
			virtualmachines.0.name~web-control- virtualmachines.1.name~web-control- virtualmachines.2.name~web-node- \
				virtualmachines.3.name~web-node- \
			virtualmachines.3.kubernetesnodeversion=1.31.1 virtualmachines.3.state=Running \
			> ipaddress=address ipaddressid=ip networkid=net virtualmachines.3.id=worker
		owner listKubernetesClusters id={k} => endpoint=https://{address}:6443/
		owner listVirtualMachines networkid={net} => count 4
		owner listFirewallRules ipaddressid={ip} => count 2 startport=6443 /firewallrule.1.startport=2222 /firewallrule.1.endport=2225
		owner listLoadBalancerRules publicipid={ip} => name=api-lb > lb
		owner listLoadBalancerRuleInstances id={lb} => count 2
		owner listPortForwardingRules ipaddressid={ip} => count 4
		owner getKubernetesClusterConfig id={k} > configdata=config
		root listUsers username=owner-kubeadmin listall=true => apikey~
	`)
	var parsed struct {
		Clusters []struct{ Cluster struct{ Server string } }
	}
	require.NoError(t, yaml.Unmarshal([]byte(h.vars["config"]), &parsed))
	require.Equal(t, "https://"+h.vars["address"]+":6443", parsed.Clusters[0].Cluster.Server)

	h.play(`
		owner destroyVirtualMachine id={worker} => job 530 Instance is a part of a Kubernetes cluster: web.
		owner listVirtualMachines id={worker} => state=Running
		owner stopVirtualMachine id={worker}
		owner listKubernetesClusters id={k} => state=Alert
		owner scaleKubernetesCluster id={k} size=1 => job 530 Kubernetes cluster web is in Alert state and can not be scaled
		owner startKubernetesCluster id={k}
		& owner stopKubernetesCluster id={k}
		owner listKubernetesClusters id={k} => state=Stopping
		wait 1m
		owner listKubernetesClusters id={k} => state=Stopped
		owner stopKubernetesCluster id={k} => success=true
		owner scaleKubernetesCluster id={k} size=3 => job 530 Kubernetes cluster : web is in Stopped state
		owner startKubernetesCluster id={k} => state=Running
		owner deleteKubernetesCluster id={k} => success=true
		owner listKubernetesClusters id={k} => count 0
		owner listVirtualMachines keyword=web- => count 0
		owner listNetworks keyword=web- => count 0
		owner listPublicIpAddresses ipaddress={address} => count 0
		owner deleteKubernetesCluster id={k} => job 530 Invalid cluster id specified
		owner startKubernetesCluster id={k} => job 530 Given Kubernetes cluster was not found
		owner stopKubernetesCluster id={k} => job 530 Failed to find Kubernetes cluster with given ID
		owner scaleKubernetesCluster id={k} => job 530 Invalid Kubernetes cluster ID
	`)
}

// TestClusterWithoutAddress runs out of public addresses while the cluster is made.
func TestClusterWithoutAddress(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	for _, ip := range h.sim.st.IPs.Rows {
		if ip.State == store.IPFree {
			ip.State = store.IPReserved
		}
	}
	h.play(newCluster + ` => job 530 Failed to start Kubernetes cluster : c1 as no public IP found for the cluster
		owner listKubernetesClusters => state=Error virtualmachines#=0 > k
		owner startKubernetesCluster id={k} => job 530 Kubernetes cluster : c1 has invalid API endpoint.
		owner deleteKubernetesCluster id={k}
	`)
}

// TestClusterMeetsItsNetwork: a Kubernetes cluster uses key pairs and respects and makes rules like everybody else.
func TestClusterMeetsItsNetwork(t *testing.T) {
	t.Parallel()
	startCKS(t).play(`
		owner stopVirtualMachine id={extra}
		owner startVirtualMachine id={extra}  # implements the network
		owner listPublicIpAddresses associatednetworkid={cksnet} issourcenat=true > nat
		owner createPortForwardingRule ipaddressid={nat} protocol=udp publicport=2223 privateport=2223 virtualmachineid={extra} \
			openfirewall=false > blocking
		` + newCluster + ` networkid={cksnet} => 530/9999 has conflicting portforwarding rules to provision Kubernetes cluster for node VM SSH
		owner deletePortForwardingRule id={blocking}
		` + newCluster + ` networkid={cksnet} > k
		owner listPortForwardingRules ipaddressid={nat} => count 2
		owner createPortForwardingRule ipaddressid={nat} protocol=udp publicport=2222 privateport=2222 virtualmachineid={extra} openfirewall=false
		other listPortForwardingRules listall=true => count 0
		owner deleteKubernetesCluster id={k}
		owner listPortForwardingRules ipaddressid={nat} => count 1  # the other's own
		owner listFirewallRules ipaddressid={nat} => count 0
	`)
}

func TestClusterOnTier(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	h.set("t", h.netID("tier")).play(newCluster + ` networkid={t} etcdnodes=1 => ipaddress=- etcdips~203.0.113. etcdnodes=1 > k
		owner listNetworkACLs networkid={t} => count 5
		owner listPublicIpAddresses associatednetworkid={t} => count 1
	`)
	top := h.sim.st.KubernetesClusters.Rows[0].ACLItems
	require.Equal(t, []int{2, 1}, []int{top[0].Number, top[1].Number}, "SSH on top, then the API")
	h.play(`
		owner deleteKubernetesCluster id={k}
		owner listNetworkACLs networkid={t} => count 3
		owner listPublicIpAddresses associatednetworkid={t} => count 0
	`)
}

func TestProjectCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	team := h.idOf("projects", "team")
	first, _, _ := strings.Cut(team, "-")
	service := "kubeadmin-" + first
	h.set("team", team, "service", service, "role", store.CKSProjectRole).play(newCluster + ` projectid={team} \
			=> projectid={team} account=- > k
		root listAccounts name={service} listall=true => rolename="{role}"`)
	h.play(strings.ReplaceAll(`
		SERVICE listKubernetesClusters projectid={team} => count 1
		SERVICE listVirtualMachines projectid={team} => count 2
		SERVICE listZones => 432/9999 does not exist or is not available
		mate listKubernetesClusters projectid=-1 => count 1
		mate listKubernetesClusters listall=true => count 0
		mate createKubernetesCluster name=c2 zoneid={zone} kubernetesversionid={version} serviceofferingid={node} size=1 projectid={team} > two
		owner deleteKubernetesCluster id={k}
		SERVICE listNetworks projectid={team}
		owner deleteKubernetesCluster id={two}
	`, "SERVICE", service))
	_, _, ok := h.sim.Keys(service)
	require.False(t, ok, "the service account goes with the last cluster")
}

func TestExternalManagedCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	h.set("foreign", h.vmID("foreign")).play(`
		owner createKubernetesCluster name=Ext_1! zoneid={zone} clustertype=ExternalManaged networkid={cksnet} \
				=> state=Running description=Ext_1! \
			ipaddress~203.0.113. etcdips=- > k
		owner addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vm1},{vm1}
		owner addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vm2} iscontrolnode=true
		owner listKubernetesClusters id={k} => size=1 controlnodes=1 etcdips=map[]
		owner addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={foreign} => 530/9999 {denied}
		other addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vm1} => 530/9999 {denied}
		owner addVirtualMachinesToKubernetesCluster id={k} => 431/9999 missing parameter virtualmachineids
		owner removeVirtualMachinesFromKubernetesCluster id={k} virtualmachineids={extra},{vm2} => \
			/removevirtualmachinesfromkubernetesclusterresponse.0.success=true /removevirtualmachinesfromkubernetesclusterresponse.1.success=false \
			/removevirtualmachinesfromkubernetesclusterresponse.1.displaytext="VM is not part of the cluster"
		owner listKubernetesClusters id={k} => controlnodes=0
	`)
	for _, verb := range []string{"Start", "Stop", "Scale", "Upgrade"} {
		h.play("owner " + strings.ToLower(verb) + "KubernetesCluster id={k} size=2 kubernetesversionid={version} => job 530 " + verb +
			" kubernetes cluster is not supported for an externally managed cluster (Ext_1!)")
	}
	h.play(`
		owner getKubernetesClusterConfig id={k} => 530/9999 Config not found for Kubernetes cluster : Ext_1!
		other getKubernetesClusterConfig id={k} => 530/9999 {denied}
		other deleteKubernetesCluster id={k} => job 530 {denied}
		` + newCluster + ` > managed
		owner addVirtualMachinesToKubernetesCluster id={managed} virtualmachineids={vm1} => 530/9999 VM cannot be added to a CloudStack managed
		owner listKubernetesClusters clustertype=CloudManaged => count 1
		owner listKubernetesClusters name=ext_1! => count 1
		owner listKubernetesClusters keyword=c1 => count 1
		owner listKubernetesClusters state=Running => count 2
		owner listKubernetesClusters state=Stopped => count 0
		owner listKubernetesClusters clustertype=x => 530/9999 Unable to resolve cluster type x
		other listKubernetesClusters listall=true => count 0
		root listKubernetesClusters listall=true => count 2
		owner destroyVirtualMachine id={vm2}  # members are free to go
		owner deleteKubernetesCluster id={k} expunge=true => job 530 Parameter expunge can be passed by Admin only.
		owner deleteKubernetesCluster id={k} cleanup=true
		owner listVirtualMachines id={vm1} => count 0
		root listVirtualMachines id={vm1} => state=Destroyed
	`)
}

func TestKubernetesServiceDisabled(t *testing.T) {
	t.Parallel()
	h := start(t, Options{World: &World{
		Settings: map[string]string{"cloud.kubernetes.service.enabled": "false"}, Zones: []Zone{{Name: "z", PublicRanges: []string{"203.0.113.10-203.0.113.19"}}},
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
