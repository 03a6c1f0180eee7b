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
vpcs:
  - {name: v1, cidr: 10.2.0.0/16, account: owner, aclLists: [{name: l1, items: [
      {number: 1, protocol: tcp, startPort: 80}, {number: 2, protocol: all}, {number: 5, protocol: icmp}]}]}
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
	h.set("zone", h.idOf("zones", "z1"), "node", h.idOf("offerings", "node"), "big", h.idOf("offerings", "big"), "small", h.idOf("offerings", "small"))
	h.set("cksnet", h.netID("cks-net"), "vm1", h.vmID("vm-1"), "vm2", h.vmID("vm-2"), "extra", h.vmID("extra"))
	h.play("root addKubernetesSupportedVersion semanticversion=1.31.1 mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso > version")
	return h
}

// newCluster asks for a cluster of one control node and one worker.
const newCluster = "owner createKubernetesCluster name=c1 zoneid={zone} kubernetesversionid={version} serviceofferingid={node} size=1"

func TestKubernetesVersions(t *testing.T) {
	t.Parallel()
	startCKS(t).play(`
		root addKubernetesSupportedVersion semanticversion=1.14.0 mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso zoneid={zone} > old
		owner listKubernetesSupportedVersions => count 2 name=v1.31.1 zoneid=- /kubernetessupportedversion.1.name=v1.14.0-z1 \
			/kubernetessupportedversion.1.supportsha=false /kubernetessupportedversion.1.supportsautoscaling=false
		owner listKubernetesSupportedVersions minimumsemanticversion=1.20.0 => count 1
		owner listKubernetesSupportedVersions minimumkubernetesversionid={version} => count 1
		owner listKubernetesSupportedVersions keyword=31 => count 1
		owner listKubernetesSupportedVersions id={version} => count 1
		owner listKubernetesSupportedVersions zoneid={zones:z2} => count 1
		owner listKubernetesSupportedVersions minimumsemanticversion=x => 431/9999 Invalid version format
		owner addKubernetesSupportedVersion semanticversion=1.31.1 => 432/9999 does not exist or is not available
		root addKubernetesSupportedVersion semanticversion=x mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso \
			=> 431/9999 Invalid version format. Semantic
		+ semanticversion=1.31 => 431/9999 Invalid version format, 1.31. Semantic version should be specified in MAJOR.MINOR.PATCH format
		+ semanticversion=1.10.9 => 530/9999 1.11.0 is minimum version supported by Kubernetes Service
		+ semanticversion=1.31.2 mincpunumber=1 => 530/9999 Invalid value for mincpunumber parameter. Minimum 2 vCPUs required.
		+ semanticversion=1.31.2 minmemory=1024 => 530/9999 Invalid value for minmemory parameter. Minimum 2048MB memory required
		+ semanticversion=1.31.2 arch=z80 => 530/9999 Unsupported arch type: z80
		+ semanticversion=1.31.2 url= => 530/9999 Invalid URL for ISO specified
		root updateKubernetesSupportedVersion id={old} state=enabled => 530/9999 Invalid value for state parameter
		root updateKubernetesSupportedVersion id={old} state=Disabled => state=Disabled
		admin deleteKubernetesSupportedVersion id={old}
		admin deleteKubernetesSupportedVersion id={old} => job 530 Invalid Kubernetes version id specified
		` + newCluster + `
		admin deleteKubernetesSupportedVersion id={version} => job 530 Existing clusters currently using the version.
	`)
}

func TestCreateKubernetesClusterRefusals(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	h.play(`
		root addKubernetesSupportedVersion semanticversion=1.31.2 mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso zoneid={zones:z2} \
			> elsewhere
		+ semanticversion=1.31.3 zoneid=- > disabled
		+ semanticversion=1.15.0 zoneid=- > old
		root updateKubernetesSupportedVersion id={disabled} state=Disabled
		` + newCluster + ` kubernetesversionid=- => 530/9999 Unable to find given Kubernetes version in supported versions
		` + newCluster + ` name=Bad_Name! => 530/9999 Invalid name for the Kubernetes cluster name: Bad_Name!
		+ name=c1 controlnodes=0 => 530/9999 Invalid cluster control nodes count: 0
		+ name=c1 size=0 => 530/9999 Invalid cluster size: 0
		+ name=c1 size=- => 530/9999 Invalid cluster size: null
		+ name=c1 size=10 => 530/9999 Maximum cluster size can not exceed 10. Please contact your administrator
		+ name=c1 kubernetesversionid={disabled} => 530/9999 is in Disabled state
		+ name=c1 kubernetesversionid={elsewhere} => 530/9999 is not available for zone ID: {zone}
		+ name=c1 kubernetesversionid={old} controlnodes=2 => 530/9999 HA support is available only for Kubernetes version 1.16.0 and above.
		+ name=c1 serviceofferingid=- => 530/9999 When serviceofferingid is not specified, service offerings for each node type must be
		+ name=c1 serviceofferingid={small} => 530/9999 for WORKER nodes is not suitable for the Kubernetes cluster version
		+ name=c1 keypair=k => 530/9999 Given SSH key pair with name: k was not found for the account owner
		+ name=c1 noderootdisksize=4 => 530/9999 Provided node root disk size is lesser than default size of 8GB
		+ name=c1 dockerregistryurl=http://r => 530/9999 All the docker private registry parameters (username, password, url) required
		+ name=c1 dockerregistryurl=http://r dockerregistryusername=u dockerregistrypassword=p => 530/9999 Private registry for the Kubernetes
		+ name=c1 externalloadbalanceripaddress=x => 530/9999 Invalid external load balancer IP address
		+ name=c1 externalloadbalanceripaddress=192.0.2.9 => 530/9999 parameter must be specified along with networkid parameter
		+ name=c1 networkid={networks:plain-net} => 530/9999 Kubernetes service has not been configured properly to provision Kubernetes clusters
		+ name=c1 networkid={networks:closed} => 530/9999 can not be used for Kubernetes cluster as it uses default deny ACL
		+ name=c1 networkid={networks:shared} controlnodes=2 => 530/9999 needs an external load balancer IP address.
		+ name=c1 nodeofferings[0].node=control nodeofferings[0].offering={small} => 530/9999 for CONTROL nodes is not suitable
		+ name=c1 nodetemplates[0].node=control nodetemplates[0].template=x => 530/9999 Cannot find a template with ID x
		+ name=c1 clustertype=x => 431/4350 Unable to resolve cluster type x to a supported value (CloudManaged, ExternalManaged)
		+ name=c1 networkid={networks:other-net} => 531/4365 permission denied
		+ name=c1 account=other => 431/4350 Account must be specified with domainId parameter
		+ name=c1 account=other domainid={ROOT} => 531/4365 {denied}
		+ name=c1 zoneid=- => 431/9999 missing parameter zoneid
	`)
	owner, _ := h.sim.st.AccountIn(h.sim.st.Root(), "owner")
	owner.Limits = map[string]int64{"virtualMachines": 3}
	h.play(newCluster + ` => 535/4370 Maximum amount of resources of Type = 'user_vm'
		root listKubernetesClusters listall=true => count 0`)
	h.sim.st.Settings.EndpointURL = ""
	h.play(newCluster + " => 530/9999 Global setting endpoint.url has to be set to the Management Server's API end point")
}

func TestCloudManagedCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	h.play(`
		& ` + newCluster + ` name=web size=2 controlnodes=2 > k
		owner listKubernetesClusters id={k} => state=Starting
		owner getKubernetesClusterConfig id={k} => 530/9999 Setup is in progress for Kubernetes cluster : web
		owner deleteKubernetesCluster id={k} => job 530 in state: Starting
		owner listKubernetesClusters id={k} => state=Running associatednetworkname=web-network cpunumber=8 memory=8192 virtualmachines#=4 \
			virtualmachines.0.name~web-control- virtualmachines.1.name~web-control- virtualmachines.2.name~web-node- virtualmachines.3.name~web-node- \
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

func TestScaleKubernetesCluster(t *testing.T) {
	t.Parallel()
	startCKS(t).play(newCluster + ` > k ipaddressid=ip
		owner scaleKubernetesCluster id={k} size=3 => size=3 virtualmachines#=4 cpunumber=8 \
			> virtualmachines.0.id=control virtualmachines.1.id=first virtualmachines.2.id=second
		owner listFirewallRules ipaddressid={ip} => endport=2225
		owner scaleKubernetesCluster id={k} nodeids={second} => size=2 virtualmachines#=3
		owner scaleKubernetesCluster id={k} size=1 => virtualmachines#=2 virtualmachines.1.id={first}
		owner scaleKubernetesCluster id={k} => job 530 either service offering or cluster size or nodeids to be removed or autoscaling must be
		+ size=0 => job 530 cannot be scaled for size, 0
		+ size=10 => job 530 Maximum cluster size can not exceed 10. Please contact your administrator
		+ nodeids={control} => job 530 Can not remove all control nodes from a cluster
		+ nodeids={first} => job 530 Can not remove all nodes from a cluster
		+ nodeids={vm1} => job 530 Invalid node ids
		+ nodeids={first} size=1 => job 530 nodeids can not be passed along with clustersize or service offering
		+ serviceofferingid={small} => job 530 needs minimum 2 vCPUs and 2048 MB RAM
		+ autoscalingenabled=true => job 530 Autoscaling requires minsize and maxsize to be passed
		+ autoscalingenabled=true minsize=0 maxsize=3 => job 530 Minsize must be at least than 1
		+ autoscalingenabled=true minsize=3 maxsize=3 => job 530 Maxsize must be greater than minsize
		+ autoscalingenabled=true minsize=1 maxsize=30 => job 530 Maximum cluster size can not exceed 10.
		+ autoscalingenabled=true size=2 => job 530 Autoscaling can not be passed along with nodeids or clustersize
		+ nodeofferings[0].node=worker => job 530 Incomplete Node Type to Service Offering ID mapping: 'worker' -> 'null'
		+ nodeofferings[0].node=x nodeofferings[0].offering={big} => job 530 The provided value 'x' for Node Type is invalid
		owner listKubernetesClusters id={k} => state=Running
		owner scaleKubernetesCluster id={k} autoscalingenabled=true minsize=1 maxsize=3 => autoscalingenabled=true maxsize=3
		owner scaleKubernetesCluster id={k} nodeofferings[0].node=worker nodeofferings[0].offering={big} => cpunumber=6 workerofferingname=big
		owner scaleKubernetesCluster id={k} serviceofferingid={big} => cpunumber=8 serviceofferingname=big
		owner scaleKubernetesCluster id={k} serviceofferingid={node} => job 530 offers lesser resources
		other scaleKubernetesCluster id={k} size=2 => job 530 {denied}
	`)
}

func TestUpgradeKubernetesCluster(t *testing.T) {
	t.Parallel()
	startCKS(t).play(newCluster + ` > k
		root addKubernetesSupportedVersion semanticversion=1.31.1 mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso name=same > same
		+ semanticversion=1.30.9 name=- > older
		+ semanticversion=1.33.0 name=- > later
		+ semanticversion=1.32.9 name=- mincpunumber=8 > large
		+ semanticversion=1.32.0 name=- > next
		owner upgradeKubernetesCluster id={k} kubernetesversionid={same} => job 530 Kubernetes clusters can not be upgraded, current version:
		+ kubernetesversionid={older} => job 530 Kubernetes clusters can not be downgraded
		+ kubernetesversionid={later} => job 530 Kubernetes clusters can be upgraded between next minor or patch version releases
		+ kubernetesversionid={large} => job 530 needs minimum 8 vCPUs while associated service offering : node offers only 2 vCPUs
		& owner upgradeKubernetesCluster id={k} kubernetesversionid={next}
		owner listKubernetesClusters id={k} => state=Upgrading
		wait 1m
		owner listKubernetesClusters id={k} => kubernetesversionname=v1.32.0 virtualmachines.0.kubernetesnodeversion=1.32.0
		owner stopKubernetesCluster id={k}
		owner upgradeKubernetesCluster id={k} kubernetesversionid={later} => job 530 Kubernetes cluster : c1 is not in running state
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

func TestClusterInGivenNetwork(t *testing.T) {
	t.Parallel()
	startCKS(t).play(newCluster + ` networkid={cksnet} > k ipaddressid=ip
		` + newCluster + ` networkid={cksnet} => 530/9999 is already under use by another Kubernetes cluster
		owner addNodesToKubernetesCluster id={k} nodeids={vm1} => job 530 No valid nodes found to be added to the Kubernetes cluster
		owner addNodesToKubernetesCluster id={k} nodeids={extra} => size=2 virtualmachines.2.isexternalnode=true
		owner listFirewallRules ipaddressid={ip} => count 3
		owner removeNodesFromKubernetesCluster id={k} nodeids={extra} => size=1
		owner deleteKubernetesCluster id={k}
		owner listFirewallRules ipaddressid={ip} => count 0
		owner listLoadBalancerRules publicipid={ip} => count 0
		owner listNetworks id={cksnet} => count 1
		owner listVirtualMachines id={extra} => state=Running
	`)
}

// TestClusterMeetsItsNetwork: a Kubernetes cluster uses key pairs and respects and makes rules like everybody else.
func TestClusterMeetsItsNetwork(t *testing.T) {
	t.Parallel()
	startCKS(t).play(`
		owner createSSHKeyPair name=mine
		owner stopVirtualMachine id={extra}
		owner startVirtualMachine id={extra}  # implements the network
		owner listPublicIpAddresses associatednetworkid={cksnet} issourcenat=true > nat
		owner createPortForwardingRule ipaddressid={nat} protocol=udp publicport=2223 privateport=2223 virtualmachineid={extra} \
			openfirewall=false > blocking
		` + newCluster + ` networkid={cksnet} => 530/9999 has conflicting portforwarding rules to provision Kubernetes cluster for node VM SSH
		owner deletePortForwardingRule id={blocking}
		` + newCluster + ` keypair=theirs => 530/9999 was not found for the account owner
		` + newCluster + ` networkid={cksnet} keypair=mine => keypair=mine > k virtualmachines.0.id=node
		owner listPortForwardingRules ipaddressid={nat} => count 2
		owner createPortForwardingRule ipaddressid={nat} protocol=udp publicport=2222 privateport=2222 virtualmachineid={extra} openfirewall=false
		other listPortForwardingRules listall=true => count 0
		owner listVolumes virtualmachineid={node} => size=8589934592
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

func TestClusterInSharedNetwork(t *testing.T) {
	t.Parallel()
	startCKS(t).play(newCluster + ` networkid={networks:shared} => ipaddress=- > k virtualmachines.0.nic.0.ipaddress=address
		owner listKubernetesClusters id={k} => endpoint=https://{address}:6443/
		owner deleteKubernetesCluster id={k}
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
		owner createKubernetesCluster name=Ext_1! zoneid={zone} clustertype=ExternalManaged networkid={cksnet} => state=Running description=Ext_1! \
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
