// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/compute"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// startVMs starts the example world with names for what deployments need.
func startVMs(t *testing.T, job time.Duration) *env {
	t.Helper()
	h := start(t, Options{Latency: LatencyProfile{Job: job}})
	h.play(`
		k8s-owner listZones > zone
		k8s-owner listServiceOfferings > small /serviceoffering.1.id=medium
		k8s-owner listTemplates templatefilter=featured > template
		k8s-owner listNetworks keyword=k8s-net > net
		k8s-owner listLoadBalancerRules > rule
	`)
	return h
}

// deploy deploys a VM in the network.
const deploy = "k8s-owner deployVirtualMachine zoneid={zone} serviceofferingid={small} templateid={template} networkids={net}"

func TestDeploymentStates(t *testing.T) {
	t.Parallel()
	h := startVMs(t, 9*time.Second)
	h.play(`
		& ` + deploy + ` name=new-1 userdata=IyE= details[0].a=b > vm jobid=job
		k8s-owner listVirtualMachines id={vm} => state=Stopped jobid={job} details="map[a:b deployvm:true]" ipaddress~10.1.1. lastupdated=- \
			pooltype=-
		wait 4s
		k8s-owner listVirtualMachines id={vm} => state=Starting hostcontrolstate~
		wait 5s
		k8s-owner listVirtualMachines id={vm} userdata=true => state=Running details=map[a:b] userdata=IyE= jobid=-
		k8s-owner listVirtualMachines id={vm} => userdata=-
		` + deploy + ` startvm=false => state=Stopped name~VM- > stopped
		k8s-owner startVirtualMachine id={stopped}
		k8s-owner listVirtualMachines id={stopped} => state=Running
	`)
	h.sim.Inject(Fault{Command: "deployVirtualMachine", Kind: FaultJobFails, Text: "no"})
	h.play(deploy + ` name=broken => job 530 no
		k8s-owner listVirtualMachines name=broken => state=Error nic.0.isolationuri=-  # it stays listed
	`)
}

func TestDefaultNetwork(t *testing.T) {
	t.Parallel()
	h := startVMs(t, 0)
	h.play(`
		root createAccount accounttype=0 username=tenant email=t@example.com firstname=T lastname=T password=password
		root deployVirtualMachine zoneid={zone} serviceofferingid={small} templateid={template} account=tenant domainid={ROOT} name=a => \
			account=tenant username=tenant
		root listNetworks account=tenant domainid={ROOT} => name=tenant-network state=Implemented > n
		root deployVirtualMachine zoneid={zone} serviceofferingid={small} templateid={template} account=tenant domainid={ROOT} name=b \
			ipaddress=10.1.1.77
		+ name=c => 530/4250 Unable to acquire Guest IP address
		root listVirtualMachines networkid={n} listall=true => count 2
		root listVirtualMachines networkid={n} => count 0  # without listall an admin sees own VMs
	`)
	st := h.sim.st
	st.Networks.Add(&store.Network{
		Name: "more", Zone: st.Zones.Rows[0], Owner: st.VMs.Rows[len(st.VMs.Rows)-1].Owner, Typ: store.TypeIsolated,
		Offering: st.NetOffs.Rows[0], Domain: st.Root(),
	})
	h.play(`root deployVirtualMachine zoneid={zone} serviceofferingid={small} templateid={template} account=tenant domainid={ROOT} name=d => \
			431/4350 More than 1 default Isolated networks are found for account Account [`)
}

func TestExpungeFreesEverything(t *testing.T) {
	t.Parallel()
	startVMs(t, 0).play(`
		k8s-owner listDiskOfferings name=Small > disk
		` + deploy + ` name=gone ipaddress=10.1.1.99 group=g diskofferingid={disk} > vm
		k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm}
		k8s-owner createTags resourcetype=UserVm resourceids={vm} tags[0].key=k tags[0].value=v
		k8s-owner listVolumes virtualmachineid={vm} => count 2
		k8s-owner listLoadBalancerRuleInstances id={rule} => count 3
		admin expungeVirtualMachine id={vm} => job 530 Please destroy vm with specified vmId before expunge
		k8s-owner destroyVirtualMachine id={vm}
		admin listVolumes virtualmachineid={vm} listall=true => state=Destroy
		` + deploy + ` name=again ipaddress=10.1.1.99 => 530/4250 {internal}
		admin expungeVirtualMachine id={vm}
		admin listVolumes virtualmachineid={vm} listall=true => count 0
		k8s-owner listTags resourceid={vm} => count 0
		k8s-owner listLoadBalancerRuleInstances id={rule} => count 2
		` + deploy + ` name=gone ipaddress=10.1.1.99
	`)
}

func TestUpdateOfVMs(t *testing.T) {
	t.Parallel()
	startVMs(t, 0).play(deploy + " name=one\n" + deploy + ` name=two > vm
		k8s-owner updateVirtualMachine id={vm} name=one => 431/4350 The vm with hostName one already exists in the network domain:
		+ name=- haenable=true => 431/4350 Can't enable ha for the vm as it's created from the Service offering having HA disabled
		+ name=- details[0].rootDiskController=x => 431/4350 You're not allowed to add or edit the read-only setting: rootDiskController
		+ name=- details[0].rootdisksize=9 => 431/4350 You're not allowed to add or edit the restricted setting: rootdisksize
		k8s-owner updateVirtualMachine id={vm} details[0].a=1 displayname=Second group=workers deleteprotection=true
		k8s-owner listVirtualMachines id={vm} => details=map[a:1] displayname=Second group=workers
		k8s-owner listInstanceGroups name=work > group
		k8s-owner listVirtualMachines groupid={group} => count 1
		k8s-owner destroyVirtualMachine id={vm} => job 431 has delete protection enabled and cannot be deleted.
		k8s-owner updateVirtualMachine id={vm} cleanupdetails=true deleteprotection=false
		k8s-owner deleteInstanceGroup id={group}
		k8s-owner listVirtualMachines id={vm} => details=map[] group=-

		k8s-owner listServiceOfferings virtualmachineid={vm} > medium
		k8s-owner changeServiceForVirtualMachine id={vm} serviceofferingid={medium} => 431/4350 not dynamically scalable
		k8s-owner stopVirtualMachine id={vm}
		k8s-owner scaleVirtualMachine id={vm} serviceofferingid={medium}
		k8s-owner listVirtualMachines id={vm} => serviceofferingid={medium}
		k8s-owner scaleVirtualMachine id={vm} serviceofferingid={medium} => job 431 since it already has the requested service offering
		k8s-owner rebootVirtualMachine id={vm} => job 431 is not running, unable to reboot it
	`)
}

func TestAffinityAndHosts(t *testing.T) {
	t.Parallel()
	w := ExampleWorld()
	w.Zones[0].Hosts = []string{"h1", "h2"}
	h := start(t, Options{World: w})
	h.play(`
		k8s-owner listZones > zone
		k8s-owner listServiceOfferings > small
		k8s-owner listTemplates templatefilter=executable > template
		k8s-owner listNetworks keyword=k8s-net > net
		k8s-owner createAffinityGroup name=apart type=other => 431/4350 invalid affinity group type: other
		k8s-owner createAffinityGroup name=apart type="host anti-affinity" > group
		k8s-owner createAffinityGroup name=apart type="host anti-affinity" => 431/4350 a group with name apart already exists.
		` + deploy + ` affinitygroupids={group} > one
		` + deploy + ` affinitygroupnames=apart > two
		k8s-owner listAffinityGroups id={group} => virtualmachineIds#=2
		admin listVirtualMachines id={one} > hostid=first
		admin listVirtualMachines id={two} > hostid=second
		` + deploy + ` name=third affinitygroupids={group} => job 533 Please check the affinity groups provided
		k8s-owner listVirtualMachines name=third => state=Error
		admin listVirtualMachines hostid={first} affinitygroupid={group} listall=true => count 1
		` + deploy + ` > free
		admin listVirtualMachines id={free} > hostid=now
	`)
	require.NotEqual(t, h.vars["first"], h.vars["second"])
	other := h.vars["first"]
	if other == h.vars["now"] {
		other = h.vars["second"]
	}
	h.set("other", other).play(`
		k8s-owner migrateVirtualMachine virtualmachineid={free} hostid={other} => 432/9999 The API [migrateVirtualMachine]
		admin migrateVirtualMachine virtualmachineid={free} hostid={other}
		admin listVirtualMachines id={free} => hostid={other}
		admin migrateVirtualMachine virtualmachineid={free} hostid={other} => job 431 already present on this host
		k8s-owner deleteAffinityGroup id={group}
		k8s-owner listVirtualMachines id={one} => affinitygroup#=0
		k8s-owner listAffinityGroups => count 0
	`)
}

func TestListFiltersOfVMs(t *testing.T) {
	t.Parallel()
	startVMs(t, 0).play(`
		k8s-owner registerSSHKeyPair name=mine publickey="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUf me"
		` + deploy + ` name=filtered displayname="Filtered One" keypairs=mine startvm=false => keypairs=mine > vm
		k8s-owner listVirtualMachines name=FILTERED => count 1 id={vm}
		k8s-owner listVirtualMachines keyword="tered on" => count 1 id={vm}
		k8s-owner listVirtualMachines keypair=mine => count 1 id={vm}
		k8s-owner listVirtualMachines state=stopped => count 1 id={vm}
		k8s-owner listVirtualMachines ids={vm} => count 1 id={vm}
		k8s-owner listVirtualMachines keyword=filtered page=1 pagesize=1 => count 1 id={vm}
		k8s-owner listVirtualMachines forvirtualnetwork=true name=filtered => count 1 id={vm}
		k8s-owner listVirtualMachines name="Filtered One" => count 0
		+ name=filter => count 0
		+ name=filtered leased=true => count 0
		+ name=filtered forvirtualnetwork=false => count 0
		k8s-owner listVirtualMachines keypair=other => count 0
		k8s-owner listVirtualMachines hypervisor=KVM => count 0
		k8s-owner listVirtualMachines haenable=true => count 0
		k8s-owner listVirtualMachinesMetrics id={vm} => memorytotal="0.50 GiB" domainpath=-
	`)
}

func TestSSHKeys(t *testing.T) {
	t.Parallel()
	start(t, Options{}).play(`
		k8s-owner createSSHKeyPair name=k => privatekey~"BEGIN RSA PRIVATE KEY" > fingerprint=print
		k8s-owner createSSHKeyPair name=k => 431/4350 A key pair with name 'k' already exists.
		k8s-owner registerSSHKeyPair name=x publickey=rubbish => 431/4350 Public key is invalid
		k8s-owner listSSHKeyPairs => fingerprint={print} privatekey=-
		admin listSSHKeyPairs => count 0
		admin listSSHKeyPairs listall=true => count 1
		k8s-owner deleteSSHKeyPair name=k
		k8s-owner deleteSSHKeyPair name=k => 431/4350 does not exist for account k8s in specified domain id
	`)
}

func TestAssignVirtualMachine(t *testing.T) {
	t.Parallel()
	startVMs(t, 0).play(deploy + ` name=moved > vm
		root createAccount accounttype=0 username=heir email=t@example.com firstname=T lastname=T password=password
		root assignVirtualMachine virtualmachineid={vm} account=heir domainid={ROOT} => 431/4350 in [Running] state.
		k8s-owner stopVirtualMachine id={vm}
		root assignVirtualMachine virtualmachineid={vm} account=heir domainid={ROOT}
		admin listVirtualMachines id={vm} => account=heir nic.0.networkname=heir-network
		k8s-owner listVirtualMachines id={vm} => count 0
	`)
}

// TestInfrastructureLists: what an admin sees hangs together.
func TestInfrastructureLists(t *testing.T) {
	t.Parallel()
	start(t, Options{}).play(`
		root listZones > zone
		root listPods zoneid={zone} > pod
		root listClusters podid={pod} > cluster name=name
		root listHosts clusterid={cluster} => clustername={name}
		root listStoragePools clusterid={cluster} => state=Up
		root listSystemVms => count 2
		root listSystemVms systemvmtype=consoleproxy => count 1
		root listHypervisors zoneid={zone} => name=Simulator
		root listDiskOfferings => count 4
		root listTemplates templatefilter=all > ostypeid=os ostypename=osname
		root listOsTypes description="{osname}" => id={os}
		root listOsCategories => id~
		k8s-owner listTemplates templatefilter=self => count 0
		k8s-owner listIsos isofilter=featured => count 0
		k8s-owner listSnapshots => count 0
		k8s-owner listAffinityGroups => count 0
		k8s-owner listTemplates templatefilter=all => 431/4350 Filter all can be specified by admin only
		k8s-owner listTemplates templatefilter=bogus => 530/9999 {internal}
		k8s-owner listAffinityGroupTypes => type~anti-affinity
	`)
}

func TestSecondaryAddresses(t *testing.T) {
	t.Parallel()
	h := startVMs(t, 0)
	h.play(deploy + ` name=many > vm nic.0.id=nic
		k8s-owner listNics virtualmachineid={vm} => secondaryip=-
		k8s-owner addIpToNic nicid={nic} ipaddress=10.1.1.200 => ipaddress=10.1.1.200 > second
		k8s-owner addIpToNic nicid={nic} ipaddress=10.1.1.200 => 530/9999 Failed to assign secondary ip to nic
		k8s-owner addIpToNic nicid={nic} ipaddress=x => 431/4350 Invalid ip address x
		k8s-owner listNics virtualmachineid={vm} => secondaryip#=1
		k8s-owner assignToLoadBalancerRule id={rule} vmidipmap[0].vmid={vm} vmidipmap[0].vmip=10.1.1.201 \
			=> job 530 Failed to assign load balancer rule
		+ vmidipmap[0].vmip=10.1.1.200
		k8s-owner removeIpFromNic id={second} => job 431 Removing guest ip from nic failed
		k8s-owner removeFromLoadBalancerRule id={rule} virtualmachineids={vm}
		k8s-owner removeIpFromNic id={second}
		k8s-owner removeIpFromNic id={second} => 431/9999 Invalid parameter id value=
	`)
	for i := range compute.MaxSecondary {
		h.play(fmt.Sprintf("k8s-owner addIpToNic nicid={nic} ipaddress=10.1.1.%d", 210+i))
	}
	h.play("k8s-owner addIpToNic nicid={nic} => 431/4350 Maximum Number of Ips per Nic has been crossed.")
}

func TestUpdateVMNicIP(t *testing.T) {
	t.Parallel()
	startVMs(t, 0).play(deploy + ` name=moving > vm nic.0.id=nic
		k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm}
		k8s-owner updateVmNicIp nicid={nic} ipaddress=10.1.1.120 => job 431 VM is not Stopped
		k8s-owner stopVirtualMachine id={vm}
		k8s-owner updateVmNicIp nicid={nic} ipaddress=10.1.1.120
		k8s-owner listVirtualMachines id={vm} => ipaddress=10.1.1.120
		k8s-owner listLoadBalancerRuleInstances id={rule} lbvmips=true => /lbrulevmidip~10.1.1.120
	`)
}

func TestPowerOfVMs(t *testing.T) {
	t.Parallel()
	h := startVMs(t, 10*time.Second)
	h.play(`
		k8s-owner listVirtualMachines name=DEMO-WORKER-1 > vm
		& k8s-owner stopVirtualMachine id={vm} > jobid=stop
		admin listVirtualMachines id={vm} => state=Running  # the job has only just begun
		wait 5s
		admin listVirtualMachines id={vm} => state=Stopping
		& k8s-owner startVirtualMachine id={vm} > jobid=start  # jobs of one VM run one after the other
		wait 5s
		k8s-owner queryAsyncJobResult jobid={stop} => /jobstatus=1
		k8s-owner queryAsyncJobResult jobid={start} => /jobstatus=0
		admin listVirtualMachines id={vm} => state=Stopped
		k8s-owner listLoadBalancerRuleInstances id={rule} => count 2  # a stopped VM stays a member
		wait 10s
		k8s-owner queryAsyncJobResult jobid={start} => /jobstatus=1
		k8s-owner startVirtualMachine id={vm} => job 431 is already running
		k8s-owner updateVirtualMachine id={vm} name=renamed => name=renamed
		k8s-owner updateVirtualMachine id={vm} name=under_score => 431/4350 Invalid name

		k8s-owner destroyVirtualMachine id={vm} expunge=true => job 530 does not have permission for expunging
		k8s-owner destroyVirtualMachine id={vm}
		admin listVirtualMachines id={vm} => state=Destroyed
		k8s-owner listVirtualMachines id={vm} => count 0  # a user does not see destroyed VMs
		k8s-owner listLoadBalancerRuleInstances id={rule} => count 1
		k8s-owner listLoadBalancerRules id={rule} => state=Active
		k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm} => job 530 Failed to assign load balancer rule
		k8s-owner recoverVirtualMachine id={vm} => 531/4365 Recovering a vm can only be done by an Admin
		admin recoverVirtualMachine id={vm}
		admin listVirtualMachines id={vm} => state=Stopped
		admin destroyVirtualMachine id={vm} expunge=true
		admin listVirtualMachines id={vm} => count 0  # the id of an expunged VM still resolves
	`)
}

// TestVolumesCount: limits count the volumes that a VM has, with their sizes, and check both.
func TestVolumesCount(t *testing.T) {
	t.Parallel()
	h := startFresh(t)
	d, acc, _ := h.tenant("one", "mine")
	z := h.zoneParts()
	h.set("d", d, "account", acc, "zone", z.zone, "template", z.template, "small", z.offering).play(`
		root listDiskOfferings name=Large > large
		one/mine deployVirtualMachine name=first zoneid={zone} templateid={template} serviceofferingid={small} diskofferingid={large} \
			rootdisksize=20
		root listAccounts id={account} => volumetotal=2 primarystoragetotal=120
		one/mine deployVirtualMachine name=second zoneid={zone} templateid={template} serviceofferingid={small} diskofferingid={large} rootdisksize=20 => \
			535/9999 Maximum amount of resources of Type = 'primary_storage', tag = 'null' for Account Name = mine in Domain Id = 2 is exceeded
		root updateResourceLimit resourcetype=10 max=-1 account=mine domainid={d}
		one/mine deployVirtualMachine name=second zoneid={zone} templateid={template} serviceofferingid={small} diskofferingid={large} \
			rootdisksize=20
	`)
}
