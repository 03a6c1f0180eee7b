// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// addVersion adds a version of Kubernetes; what follows are its parameters in addition.
const addVersion = "root addKubernetesSupportedVersion mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso"

// TestContractOfKubernetes compares the commands of CloudStack Kubernetes Service with CloudStack, check by check. The
// comments name where the notes on its API differ from its source, which decides.
func TestContractOfKubernetes(t *testing.T) {
	t.Parallel()
	playContract(t, startCKS, []contractRow{
		// Supported versions.
		{"versions: without zone they are of all zones", `owner listKubernetesSupportedVersions zoneid={zones:z2} \
				=> count 1 zoneid=- name=v1.31.1`},
		{"versions: zoneid hides those of other zones", addVersion + ` semanticversion=1.30.0 zoneid={zone} => name=v1.30.0-z1 zonename=z1
			owner listKubernetesSupportedVersions zoneid={zones:z2} => count 1
			owner listKubernetesSupportedVersions zoneid={zone} => count 2`},
		{"versions: filter id", `owner listKubernetesSupportedVersions id={version} => count 1`},
		{"versions: filter keyword", `owner listKubernetesSupportedVersions keyword=1.31 => count 1
			+ keyword=1.32 => count 0`},
		{"versions: filter minimumsemanticversion", `owner listKubernetesSupportedVersions minimumsemanticversion=1.31.1 => count 1
			+ minimumsemanticversion=1.31.2 => count 0
			+ minimumsemanticversion=x => 431/9999 Invalid version format`},
		{"versions: filter minimumkubernetesversionid", `owner listKubernetesSupportedVersions minimumkubernetesversionid={version} => count 1
			+ minimumsemanticversion=1.31.1 => 530/4250 {internal}`},
		{"versions: filter arch", `owner listKubernetesSupportedVersions arch=x86_64 => count 1
			+ arch=aarch64 => count 0
			+ arch=z80 => 530/4250 {internal}`},
		{"versions: HA from 1.16.0, autoscaling from 1.15.0", addVersion + ` semanticversion=1.14.9 => supportsha=false supportsautoscaling=false
			+ semanticversion=1.15.0 => supportsha=false supportsautoscaling=true
			+ semanticversion=1.16.0 => supportsha=true supportsautoscaling=true`},
		{"add: admins only", `owner addKubernetesSupportedVersion semanticversion=1.31.1 => 432/9999 does not exist or is not available`},
		{"add: required parameters", `root addKubernetesSupportedVersion mincpunumber=2 minmemory=2048 \
				=> 431/9999 missing parameter semanticversion
			+ semanticversion=1.31.1 mincpunumber=- => 431/9999 missing parameter mincpunumber
			+ semanticversion=1.31.1 minmemory=- => 431/9999 missing parameter minmemory`},
		{"add: the version is looked at first", addVersion + ` semanticversion=x mincpunumber=1 minmemory=1 url= \
				=> 431/9999 Invalid version format. Semantic version needed`},
		{"add: then mincpunumber", addVersion + ` semanticversion=1.10.0 mincpunumber=1 minmemory=1 url= \
			=> 530/9999 Invalid value for mincpunumber parameter. Minimum 2 vCPUs required.`},
		{"add: then minmemory", addVersion + ` semanticversion=1.10.0 minmemory=2047 url= \
				=> 530/9999 Invalid value for minmemory parameter. Minimum 2048MB memory required`},
		{"add: three numbers", addVersion + ` semanticversion=1.31 url= \
				=> 431/9999 Invalid version format, 1.31. Semantic version should be specified in MAJOR.MINOR.PATCH format`},
		{"add: at least 1.11.0", addVersion + ` semanticversion=1.10.9 url= => 530/9999 1.11.0 is minimum version supported by Kubernetes Service
			+ semanticversion=1.11.0 url=http://x/y => semanticversion=1.11.0`},
		{"add: zone", addVersion + ` semanticversion=1.31.2 zoneid={nowhere} url= => 431/9999 Invalid parameter zoneid value={nowhere}`},
		{"add: url", addVersion + ` semanticversion=1.31.2 url= => 530/9999 Invalid URL for ISO specified, 
			+ semanticversion=1.31.2 url=- => 530/9999 Invalid URL for ISO specified, null`},
		{"add: arch", addVersion + ` semanticversion=1.31.2 arch=z80 => 530/9999 Unsupported arch type: z80
			+ semanticversion=1.31.2 arch=aarch64 => arch=aarch64`},
		{"add: defaults", addVersion + ` semanticversion=1.31.2 => name=v1.31.2 isoname=v1.31.2-Kubernetes-Binaries-ISO arch=x86_64 \
				directdownload=false state=Enabled \
			isostate=Ready mincpunumber=2 minmemory=2048`},
		{"update: the version", `root updateKubernetesSupportedVersion id={nowhere} state=Enabled \
				=> 431/9999 Invalid parameter id value={nowhere}`},
		// The notes say 431. The command answers each of its errors as 530.
		{"update: the state", `root updateKubernetesSupportedVersion id={version} state=enabled => 530/9999 Invalid value for state parameter
			root updateKubernetesSupportedVersion id={version} state=Disabled => state=Disabled
			root updateKubernetesSupportedVersion id={version} state=Enabled => state=Enabled
			root updateKubernetesSupportedVersion id={version} => 431/9999 missing parameter state`},
		{"update: admins only", `owner updateKubernetesSupportedVersion id={version} state=Disabled \
				=> 432/9999 does not exist or is not available`},
		{"delete a version: a job", `admin deleteKubernetesSupportedVersion id={version} => success=true
			owner listKubernetesSupportedVersions => count 0
			admin deleteKubernetesSupportedVersion id={version} => job 530 Invalid Kubernetes version id specified`},
		{"delete a version: in use", newCluster + `
			admin deleteKubernetesSupportedVersion id={version} => job 530 Unable to delete Kubernetes version ID: {version}. Existing clusters \
				currently using the version.`},

		// createKubernetesCluster: what is refused, in this order. The notes say 431 for some of them. The command
		// answers each error of these checks as 530; only the type of the cluster is read outside of them.
		{"create: the network is checked first", newCluster + ` clustertype=x networkid={networks:other-net} => 531/4365 permission denied`},
		{"create: then clustertype", newCluster + ` clustertype=x kubernetesversionid=- \
				=> 431/4350 Unable to resolve cluster type x to a supported value (CloudManaged, ExternalManaged)`},
		{"create: required parameters", newCluster + ` zoneid=- => 431/9999 missing parameter zoneid
			+ name=- => 431/9999 missing parameter name`},
		{"create: then the version", newCluster + ` kubernetesversionid=- name=Bad_Name! \
				=> 530/9999 Unable to find given Kubernetes version in supported versions`},
		{"create: then endpoint.url", `root updateConfiguration name=endpoint.url value=http://localhost:8080/client/api
			` + newCluster + ` name=Bad_Name! => 530/9999 Global setting endpoint.url has to be set to the Management Server's API end point`},
		{"create: then noderootdisksize", newCluster + ` noderootdisksize=7 name=Bad_Name! \
				=> 530/9999 Provided node root disk size is lesser than default size of 8GB`},
		{"create: then nodeofferings", newCluster + ` nodeofferings[0].node=worker name=Bad_Name! \
				=> 530/9999 Incomplete Node Type to Service Offering ID mapping: 'worker' -> 'null'
			+ nodeofferings[0].node=x nodeofferings[0].offering={big} => 530/9999 The provided value 'x' for Node Type is invalid
			+ nodeofferings[0].node=worker nodeofferings[0].offering=x => 530/9999 Cannot find a service offering with ID x`},
		{"create: then the name", newCluster + ` name=Bad_Name! controlnodes=0 \
				=> 530/9999 Invalid name for the Kubernetes cluster name: Bad_Name!`},
		{"create: then controlnodes", newCluster + ` controlnodes=0 size=0 => 530/9999 Invalid cluster control nodes count: 0`},
		{"create: then size", newCluster + ` size=0 zoneid={zones:z2} => 530/9999 Invalid cluster size: 0
			+ size=- => 530/9999 Invalid cluster size: null`},
		{"create: then the maximum", newCluster + ` size=10 kubernetesversionid={version} \
				=> 530/9999 Maximum cluster size can not exceed 10. Please contact your administrator
			+ size=9 controlnodes=2 => 530/9999 Maximum cluster size can not exceed 10.`},
		{"create: the maximum is a setting", `root updateConfiguration name=cloud.kubernetes.cluster.max.size value=3
			` + newCluster + ` size=3 => 530/9999 Maximum cluster size can not exceed 3.`},
		{"create: then the zone", `root updateKubernetesSupportedVersion id={version} state=Disabled
			` + newCluster + ` zoneid={zones:z3} networkid={networks:plain-net} \
				=> 530/9999 Cannot perform this operation, zone ID: {zones:z3} is currently disabled`},
		{"create: then the network offering", `root updateKubernetesSupportedVersion id={version} state=Disabled
			` + newCluster + ` networkid={networks:plain-net} => 530/9999 Kubernetes service has not been configured properly to provision \
				Kubernetes clusters`},
		{"create: the network offering is a setting", `root updateConfiguration name=cloud.kubernetes.cluster.network.offering value=none
			` + newCluster + ` => 530/9999 Kubernetes service has not been configured properly to provision Kubernetes clusters`},
		{"create: then the version's state", `root updateKubernetesSupportedVersion id={version} state=Disabled
			` + newCluster + ` serviceofferingid={small} => 530/9999 Kubernetes version ID: {version} is in Disabled state`},
		{"create: then the version's zone", addVersion + ` semanticversion=1.31.2 zoneid={zones:z2} > elsewhere
			` + newCluster + ` kubernetesversionid={elsewhere} serviceofferingid={small} \
				=> 530/9999 Kubernetes version ID: {elsewhere} is not available for zone ID: {zone}`},
		{"create: then HA", addVersion + ` semanticversion=1.15.0 > old
			` + newCluster + ` kubernetesversionid={old} controlnodes=2 serviceofferingid={small} \
			=> 530/9999 HA support is available only for Kubernetes version 1.16.0 and above. Given version ID: {old} is 1.15.0`},
		{"create: then the offerings", newCluster + ` serviceofferingid=- \
				=> 530/9999 When serviceofferingid is not specified, service offerings for each node type must be`},
		{"create: the offering of workers", newCluster + ` serviceofferingid={small} \
				=> 530/9999 for WORKER nodes is not suitable for the Kubernetes cluster version`},
		{"create: the offering of control nodes", newCluster + ` nodeofferings[0].node=control nodeofferings[0].offering={small} \
				=> 530/9999 for CONTROL nodes is not suitable`},
		{"create: the offering of etcd nodes", newCluster + ` etcdnodes=1 nodeofferings[0].node=etcd nodeofferings[0].offering={small} \
				=> 530/9999 for ETCD nodes is not suitable`},
		{"create: the offering and the version", addVersion + ` semanticversion=1.31.2 mincpunumber=3 > large
			` + newCluster + ` kubernetesversionid={large} => 530/9999 Kubernetes version ID: {large} needs minimum 3 vCPUs`},
		{"create: then default_deny", newCluster + ` networkid={networks:closed} \
				=> 530/9999 can not be used for Kubernetes cluster as it uses default deny ACL`},
		{"create: HA on a shared network", newCluster + ` networkid={networks:shared} controlnodes=2 \
				=> 530/9999 needs an external load balancer IP address.
			+ externalloadbalanceripaddress=192.0.2.9 => 530/9999 the simulator does not implement the parameter externalloadbalanceripaddress of`},
		{"create: one cluster for each isolated network", newCluster + ` networkid={cksnet}
			` + newCluster + ` networkid={cksnet} => 530/9999 Network ID: {cksnet} is already under use by another Kubernetes cluster`},
		{"create: last the limits", `root updateResourceLimit resourcetype=0 max=1 account=owner domainid={ROOT}
			` + newCluster + ` => 535/4370 Maximum amount of resources of Type = 'user_vm'
			root listKubernetesClusters listall=true => count 0`},
		{"create: owner", newCluster + ` account=other => 431/4350 Account must be specified with domainId parameter
			+ account=other domainid={ROOT} => 531/4365 {denied}`},
		{"create: defaults", newCluster + ` => description=c1 controlnodes=1 masternodes=1 etcdnodes=0 clustertype=CloudManaged \
				autoscalingenabled=false csienabled=false \
			associatednetworkname=c1-network minsize=- maxsize=- keypair=- > virtualmachines.0.id=vm networkid=net
			owner listNetworks id={net} => networkofferingname=DefaultNetworkOfferingforKubernetesService displaytext=owner-network`},
		{"create: the offering of each kind", newCluster + ` serviceofferingid=- nodeofferings[0].node=worker nodeofferings[0].offering={node} \
				nodeofferings[1].node=CONTROL \
			nodeofferings[1].offering={big} => serviceofferingid=- workerofferingname=node controlofferingname=big cpunumber=6 memory=6144`},
		{"create: etcd nodes come first and are reached from port 50000", newCluster + ` etcdnodes=1 \
				=> etcdnodes=1 virtualmachines.0.isetcdnode=true etcdips~203.0.113. > ipaddressid=ip
			owner listPortForwardingRules ipaddressid={ip} => count 3 publicport=50000 privateport=22`},
		{"create: the port of etcd nodes is a setting", `root updateConfiguration name=cloud.kubernetes.etcd.node.start.port value=51000
			` + newCluster + ` etcdnodes=1 => etcdips~203.0.113. > ipaddressid=ip
			owner listPortForwardingRules ipaddressid={ip} => publicport=51000`},
		{"create: answers id and job", `& ` + newCluster + ` => /id~- /jobid~-`},

		// ExternalManaged.
		{"external: neither name nor size is checked", `owner createKubernetesCluster name=Bad_Name! zoneid={zone} clustertype=ExternalManaged \
				=> state=Running size=0 endpoint="" \
			cpunumber=0 memory=0 controlnodes=1 ipaddress=- virtualmachines#=0`},
		{"external: size times offering", `owner createKubernetesCluster name=x zoneid={zone} clustertype=ExternalManaged \
				serviceofferingid={node} size=2 => cpunumber=6 memory=6144`},
		{"external: the network's source NAT address", `owner createKubernetesCluster name=x zoneid={zone} clustertype=ExternalManaged \
				networkid={cksnet} => ipaddress~203.0.113. ipaddressid~-`},
		{"external: an update by VMs", `owner createKubernetesCluster name=x zoneid={zone} clustertype=ExternalManaged > k
			owner addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vm1} => success=true
			owner addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vm1} => success=true
			owner listKubernetesClusters id={k} => size=1 controlnodes=0
			other addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vm1} => 530/9999 {denied}
			owner addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vms:foreign} => 530/9999 {denied}`},
		{"external: other commands are jobs that fail", `owner createKubernetesCluster name=x zoneid={zone} clustertype=ExternalManaged > k
			owner startKubernetesCluster id={k} => job 530 Start kubernetes cluster is not supported for an externally managed cluster (x)
			owner stopKubernetesCluster id={k} => job 530 Stop kubernetes cluster is not supported for an externally managed cluster (x)
			owner scaleKubernetesCluster id={k} size=2 => job 530 Scale kubernetes cluster is not supported for an externally managed cluster (x)
			owner upgradeKubernetesCluster id={k} kubernetesversionid={version} \
				=> job 530 Upgrade kubernetes cluster is not supported for an externally managed cluster (x)
			owner getKubernetesClusterConfig id={k} => 530/9999 Config not found for Kubernetes cluster : x`},

		// Lists and kubeconfig.
		{"list: filters", newCluster + ` > k
			owner listKubernetesClusters name=C1 => count 1
			owner listKubernetesClusters name=c => count 0
			owner listKubernetesClusters keyword=c => count 1
			owner listKubernetesClusters state=running => count 1
			owner listKubernetesClusters state=Stopped => count 0
			owner listKubernetesClusters clustertype=ExternalManaged => count 0
			owner listKubernetesClusters clustertype=x => 530/9999 Unable to resolve cluster type x to a supported value (CloudManaged, \
				ExternalManaged)
			other listKubernetesClusters listall=true => count 0
			other listKubernetesClusters id={k} => count 0`},
		{"config: no id", `owner getKubernetesClusterConfig => 530/9999 Invalid Kubernetes cluster ID specified`},
		{"config: access", newCluster + ` > k
			other getKubernetesClusterConfig id={k} => 530/9999 {denied}`},
		{"config: after the cluster was deleted", newCluster + ` > k
			owner deleteKubernetesCluster id={k}
			owner getKubernetesClusterConfig id={k} => 530/9999 Invalid Kubernetes cluster ID specified`},

		// scaleKubernetesCluster, in this order.
		{"scale: something to do", newCluster + ` > k
			owner scaleKubernetesCluster id={k} => job 530 Kubernetes cluster c1 cannot be scaled, either service offering or cluster size or \
				nodeids to be removed or autoscaling must be passed`},
		{"scale: then access", newCluster + ` > k
			other scaleKubernetesCluster id={k} size=0 => job 530 {denied}`},
		{"scale: then the state", newCluster + ` > k virtualmachines.1.id=node
			owner stopVirtualMachine id={node}
			owner scaleKubernetesCluster id={k} size=0 autoscalingenabled=true \
				=> job 530 Kubernetes cluster c1 is in Alert state and can not be scaled`},
		{"scale: then autoscaling, alone", newCluster + ` > k
			owner scaleKubernetesCluster id={k} autoscalingenabled=true size=2 \
				=> job 530 Autoscaling can not be passed along with nodeids or clustersize
			owner scaleKubernetesCluster id={k} autoscalingenabled=true => job 530 Autoscaling requires minsize and maxsize to be passed
			+ autoscalingenabled=true minsize=0 maxsize=3 => job 530 Minsize must be at least than 1
			+ autoscalingenabled=true minsize=3 maxsize=3 => job 530 Maxsize must be greater than minsize
			+ autoscalingenabled=true minsize=1 maxsize=30 => job 530 Maximum cluster size can not exceed 10.
			+ autoscalingenabled=true minsize=1 maxsize=3 => autoscalingenabled=true minsize=1 maxsize=3
			+ autoscalingenabled=false => autoscalingenabled=false minsize=-`},
		{"scale: autoscaling from 1.15.0", addVersion + ` semanticversion=1.14.9 > old
			` + newCluster + ` kubernetesversionid={old} > k
			owner scaleKubernetesCluster id={k} autoscalingenabled=true minsize=1 maxsize=3 \
				=> job 530 Autoscaling requires Kubernetes Version 1.15.0 or above`},
		{"scale: then nodeids, alone", newCluster + ` size=2 > k virtualmachines.0.id=control virtualmachines.1.id=first \
				virtualmachines.2.id=second
			owner scaleKubernetesCluster id={k} nodeids={first} size=1 \
				=> job 530 nodeids can not be passed along with clustersize or service offering
			owner scaleKubernetesCluster id={k} nodeids={first} serviceofferingid={big} \
				=> job 530 nodeids can not be passed along with clustersize or service offering
			owner scaleKubernetesCluster id={k} nodeids={vm1} => job 530 Invalid node ids
			+ nodeids={first},{first} => job 530 Invalid node ids
			+ nodeids={control} => job 530 Can not remove all control nodes from a cluster
			+ nodeids={first},{second} => job 530 Can not remove all nodes from a cluster
			+ nodeids={first} => size=1 virtualmachines#=2 virtualmachines.1.id={second}`},
		{"scale: then the offering", newCluster + ` > k
			owner scaleKubernetesCluster id={k} serviceofferingid={small} size=0 \
				=> job 530 Kubernetes cluster template(CoreOS) needs minimum 2 vCPUs and 2048 MB RAM
			+ serviceofferingid={big} size=1 => cpunumber=8 memory=8192 serviceofferingname=big
			+ serviceofferingid={node} => job 530 offers lesser resources as compared to service offering : big of Kubernetes cluster : c1
			+ nodeofferings[0].node=worker => job 530 Incomplete Node Type to Service Offering ID mapping: 'worker' -> 'null'`},
		{"scale: the offering of one kind", newCluster + ` > k
			owner scaleKubernetesCluster id={k} nodeofferings[0].node=worker nodeofferings[0].offering={big} \
				=> cpunumber=6 workerofferingname=big controlofferingname=-`},
		{"scale: then the size", newCluster + ` > k
			owner scaleKubernetesCluster id={k} size=0 => job 530 Kubernetes cluster : c1 cannot be scaled for size, 0
			+ size=10 => job 530 Maximum cluster size can not exceed 10. Please contact your administrator
			+ size=1 => size=1 virtualmachines#=2
			+ size=3 => size=3 virtualmachines#=4 cpunumber=8`},
		{"scale: only the offering of a stopped cluster", newCluster + ` > k
			owner stopKubernetesCluster id={k}
			owner scaleKubernetesCluster id={k} size=2 => job 530 Kubernetes cluster : c1 is in Stopped state
			+ size=- serviceofferingid={big} => state=Stopped cpunumber=8`},
		{"scale: the newest workers go first", newCluster + ` size=3 > k virtualmachines.1.id=first
			owner scaleKubernetesCluster id={k} size=1 => virtualmachines#=2 virtualmachines.1.id={first}`},
		{"scale: the SSH rules follow", newCluster + ` > k ipaddressid=ip
			owner scaleKubernetesCluster id={k} size=3
			owner listFirewallRules ipaddressid={ip} => count 2 startport=2222 endport=2225
			owner listPortForwardingRules ipaddressid={ip} => count 4
			owner scaleKubernetesCluster id={k} size=1
			owner listFirewallRules ipaddressid={ip} => count 2 startport=2222 endport=2223
			owner listPortForwardingRules ipaddressid={ip} => count 2`},

		// upgradeKubernetesCluster, in this order.
		{"upgrade: access before the state", newCluster + ` > k
			owner stopKubernetesCluster id={k}
			other upgradeKubernetesCluster id={k} kubernetesversionid={version} => job 530 {denied}
			owner upgradeKubernetesCluster id={k} kubernetesversionid={version} => job 530 Kubernetes cluster : c1 is not in running state`},
		{"upgrade: then the version's state", addVersion + ` semanticversion=1.29.0 mincpunumber=8 > bad
			root updateKubernetesSupportedVersion id={bad} state=Disabled
			` + newCluster + ` > k
			owner upgradeKubernetesCluster id={k} kubernetesversionid={bad} \
				=> job 530 Kubernetes version ID: {bad} for upgrade is in Disabled state`},
		{"upgrade: then the offering", addVersion + ` semanticversion=1.29.0 mincpunumber=8 minmemory=9999 > large
			` + newCluster + ` > k
			owner upgradeKubernetesCluster id={k} kubernetesversionid={large} \
			=> job 530 Kubernetes cluster : c1 cannot be upgraded with Kubernetes version : v1.29.0 which needs minimum 8 vCPUs while associated \
				service offering : node offers only 2 vCPUs`},
		{"upgrade: then the numbers", newCluster + ` > k
			` + addVersion + ` semanticversion=1.31.1 name=same > same
			` + addVersion + ` semanticversion=1.30.9 > older
			` + addVersion + ` semanticversion=1.33.0 > later
			` + addVersion + ` semanticversion=1.31.4 > patch
			` + addVersion + ` semanticversion=1.32.0 > next
			owner upgradeKubernetesCluster id={k} kubernetesversionid={same} \
				=> job 530 Kubernetes clusters can not be upgraded, current version: 1.31.1, upgrade version: 1.31.1
			+ kubernetesversionid={older} => job 530 Kubernetes clusters can not be downgraded, current version: 1.31.1, upgrade version: 1.30.9
			+ kubernetesversionid={later} => job 530 Kubernetes clusters can be upgraded between next minor or patch version releases
			+ kubernetesversionid={patch} => kubernetesversionname=v1.31.4 virtualmachines.1.kubernetesnodeversion=1.31.4
			+ kubernetesversionid={next} => kubernetesversionname=v1.32.0 state=Running`},
		{"upgrade: last the ISO's zone", addVersion + ` semanticversion=1.31.2 zoneid={zones:z2} > elsewhere
			` + newCluster + ` > k
			owner upgradeKubernetesCluster id={k} kubernetesversionid={elsewhere} \
				=> job 530 ISO associated with version : v1.31.2-z2 is not in Ready state for datacenter : z1`},

		// deleteKubernetesCluster.
		{"delete: again", newCluster + ` > k
			owner deleteKubernetesCluster id={k} => success=true
			owner deleteKubernetesCluster id={k} => job 530 Invalid cluster id specified`},
		{"delete: access", newCluster + ` > k
			other deleteKubernetesCluster id={k} => job 530 {denied}`},
		{"delete: the own network goes with all addresses and rules", newCluster + ` > k networkid=net ipaddressid=ip
			owner associateIpAddress networkid={net} > more ipaddress=moreip
			owner createLoadBalancerRule publicipid={more} name=web algorithm=roundrobin publicport=80 privateport=30080 > lb
			owner deleteKubernetesCluster id={k}
			owner listNetworks id={net} => count 0
			owner listPublicIpAddresses ipaddress={moreip} => count 0
			owner listLoadBalancerRules => count 0
			owner listVirtualMachines keyword=c1- => count 0`},
		{"delete: not with foreign VMs in the own network", newCluster + ` > k networkid=net
			owner listTemplates templatefilter=featured zoneid={zone} > template
			owner deployVirtualMachine zoneid={zone} serviceofferingid={node} templateid={template} networkids={net} > guest
			owner deleteKubernetesCluster id={k} => job 530 Network : c1-network for Kubernetes cluster : c1 has instances using it which are not \
				part of the Kubernetes cluster
			owner listKubernetesClusters id={k} => state=Running`},
		{"delete: a supplied network keeps what others made", newCluster + ` networkid={cksnet} > k ipaddressid=nat
			owner associateIpAddress networkid={cksnet} > more
			owner createLoadBalancerRule publicipid={more} name=web algorithm=roundrobin publicport=80 privateport=30080 > lb
			owner createFirewallRule ipaddressid={more} protocol=tcp startport=81 endport=81
			owner createFirewallRule ipaddressid={nat} protocol=tcp startport=8080 endport=8080
			owner deleteKubernetesCluster id={k}
			owner listNetworks id={cksnet} => count 1
			owner listLoadBalancerRules publicipid={nat} => count 0
			owner listPortForwardingRules ipaddressid={nat} => count 0
			owner listFirewallRules ipaddressid={nat} => count 1 startport=8080
			owner listPublicIpAddresses id={more} => count 1
			owner listLoadBalancerRules id={lb} => count 1
			owner listFirewallRules ipaddressid={more} => count 2`},

		// The user of the cluster.
		{"user: of an account", newCluster + `
			root listUsers username=owner-kubeadmin listall=true => account=owner apikey~ firstname=owner lastname=kubeadmin email=kubeadmin`},
		{"user: one for all clusters of an account", newCluster + `
			root listUsers username=owner-kubeadmin listall=true > apikey=key
			` + newCluster + ` name=c2
			root listUsers username=owner-kubeadmin listall=true => count 1 apikey={key}`},

		// Events: types and texts are those of the source.
		{"events: create", newCluster + `
			owner listEvents type=KUBERNETES.CLUSTER.CREATE => count 4 state=Completed description="Successfully completed creating Kubernetes \
				cluster" \
			/event.1.description="Creating Kubernetes cluster" /event.1.state=Started /event.2.description="Creating Kubernetes cluster Id: 1" \
				/event.2.state=Scheduled \
			/event.3.state=Created`},
		{"events: scale", newCluster + ` > k
			owner scaleKubernetesCluster id={k} size=2
			owner listEvents type=KUBERNETES.CLUSTER.SCALE => count 3 state=Completed description="Successfully completed scaling Kubernetes \
				cluster" \
			/event.2.description="Scaling Kubernetes cluster ID: {k}"`},
		{"events: a failure", newCluster + ` > k
			owner scaleKubernetesCluster id={k} size=0 => job 530
			owner listEvents type=KUBERNETES.CLUSTER.SCALE level=ERROR => description="Error while scaling Kubernetes cluster"`},
		{"events: VMs of external clusters have none", `owner createKubernetesCluster name=x zoneid={zone} clustertype=ExternalManaged > k
			owner addVirtualMachinesToKubernetesCluster id={k} virtualmachineids={vm1}
			owner listEvents => type=KUBERNETES.CLUSTER.CREATE`},
	})
}

// TestProjectServiceRole compares the role of the service accounts of projects with the notes on the API.
func TestProjectServiceRole(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.Fields(`queryAsyncJobResult listVirtualMachines listVolumes createVolume deleteVolume attachVolume
				detachVolume resizeVolume
		listNetworks createSnapshot listSnapshots deleteSnapshot listPublicIpAddresses associateIpAddress disassociateIpAddress
				listLoadBalancerRules
		createLoadBalancerRule updateLoadBalancerRule deleteLoadBalancerRule assignToLoadBalancerRule removeFromLoadBalancerRule
		listLoadBalancerRuleInstances listFirewallRules createFirewallRule updateFirewallRule deleteFirewallRule listNetworkACLs createNetworkACL
		deleteNetworkACL listKubernetesClusters scaleKubernetesCluster`), store.CKSProjectRules)
}
