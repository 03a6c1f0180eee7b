// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"
	"time"

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
		& ` + deploy + ` name=new-1 > vm jobid=job
		k8s-owner listVirtualMachines id={vm} => state=Stopped jobid={job} details=map[deployvm:true] ipaddress~10.1.1. lastupdated=- \
			pooltype=-
		wait 4s
		k8s-owner listVirtualMachines id={vm} => state=Starting hostcontrolstate~
		wait 5s
		k8s-owner listVirtualMachines id={vm} => state=Running details=map[] jobid=-
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

func TestTemplateFilters(t *testing.T) {
	t.Parallel()
	start(t, Options{}).play(`
		k8s-owner listTemplates templatefilter=self => count 0
		k8s-owner listTemplates templatefilter=all => 431/4350 Filter all can be specified by admin only
		k8s-owner listTemplates templatefilter=bogus => 530/9999 {internal}
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
		k8s-owner rebootVirtualMachine id={vm} => job 431 is not running, unable to reboot it
		wait 10s
		k8s-owner queryAsyncJobResult jobid={start} => /jobstatus=1
		k8s-owner startVirtualMachine id={vm} => job 431 is already running
		k8s-owner destroyVirtualMachine id={vm} expunge=true => job 530 does not have permission for expunging
		k8s-owner destroyVirtualMachine id={vm}
		admin listVirtualMachines id={vm} => state=Destroyed
		k8s-owner listVirtualMachines id={vm} => count 0  # a user does not see destroyed VMs
		k8s-owner listLoadBalancerRuleInstances id={rule} => count 1
		k8s-owner listLoadBalancerRules id={rule} => state=Active
		k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm} => job 530 Failed to assign load balancer rule
		admin destroyVirtualMachine id={vm} expunge=true
		admin listVirtualMachines id={vm} => count 0  # the id of an expunged VM still resolves
	`)
}
