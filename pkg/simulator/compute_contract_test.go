// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// startNICs is startVMs with a VM multi in net, with the NIC first, and a second network of the same owner.
func startNICs(t *testing.T) *env {
	t.Helper()
	h := startVMs(t, 0)
	n, _ := h.sim.st.Networks.Get(h.vars["net"])
	second := h.sim.st.Networks.Add(&store.Network{
		Name: "second", Zone: n.Zone, Offering: n.Offering, Owner: n.Owner, Domain: n.Domain, Typ: store.TypeIsolated, State: store.NetAllocated,
		CIDR: n.CIDR, Gateway: n.Gateway, VLAN: 4000,
	})
	h.set("second", second.UUID, "host", h.sim.st.Hosts.Rows[0].UUID).play(deploy + ` name=multi > vm nic.0.id=first
		root createAccount username=other password=p firstname=f lastname=l email=e@x accounttype=0 > user.0.id=user
		root registerUserKeys id={user}`)
	return h
}

const (
	addNIC    = "k8s-owner addNicToVirtualMachine virtualmachineid={vm} networkid={second}"
	removeNIC = "k8s-owner removeNicFromVirtualMachine virtualmachineid={vm} nicid={first}"
)

// TestContractOfVMs compares deployVirtualMachine and the NIC commands with CloudStack, check by check.
func TestContractOfVMs(t *testing.T) {
	t.Parallel()
	playContract(t, startNICs, []contractRow{
		{"deploy: required parameters", deploy + ` zoneid=- => 431/9999 missing parameter zoneid
			+ serviceofferingid=- => 431/9999 missing parameter serviceofferingid`},
		{"deploy: the name is checked first", deploy + ` name=under_score templateid=- \
				=> 431/9999 Invalid value provided for API arg: name - it can contain`},
		{"deploy: then the template", deploy + ` templateid=- account=nobody => 530/4250 {internal}`},
		{"deploy: then the owner", deploy + ` account=k8s => 431/4350 Account must be specified with domainId parameter`},
		{"deploy: an unknown owner", `admin deployVirtualMachine zoneid={zone} serviceofferingid={small} templateid={template} account=nobody \
				domainid={ROOT} \
			=> 431/4350 Unable to find account by name nobody in domain with specified id`},
		{"deploy: a parameter that the simulator lacks", deploy + ` details[0].cpuNumber=4 => 530/9999 does not implement the parameter details of deployVirtualMachine
			+ details[0].cpuNumber=- userdata=IyE= => 530/9999 does not implement the parameter userdata of deployVirtualMachine`},
		{"deploy: networks", deploy + ` networkids={nowhere} => 431/9999 Invalid parameter networkids value={nowhere}
			+ networkids={net} iptonetworklist[0].networkid={net} => 431/4350 ipToNetworkMap can't be specified along with networkIds or ipAddress
			+ networkids=- iptonetworklist[0].networkid={nowhere} => 431/4350 Unable to translate and find entity with networkId: {nowhere}`},
		{"deploy: access to the owner", deploy + ` account=admin domainid={ROOT} => 531/4365 {denied}`},
		{"deploy: the owner and the network", `admin deployVirtualMachine zoneid={zone} serviceofferingid={small} templateid={template} \
				networkids={net} \
			=> 531/4365 Unable to use network with id= {net}`},
		{"deploy: then limits", `root updateResourceLimit resourcetype=0 max=1 account=k8s domainid={ROOT}
			` + deploy + ` => 535/9999 Maximum amount of resources of Type = 'user_vm', tag = 'null' for Account Name = k8s`},
		{"deploy: then addresses", deploy + ` ipaddress=10.1.1 name=multi => 431/4350 Invalid specified IPv4 address 10.1.1`},
		{"deploy: then the host name", deploy + ` name=MULTI ipaddress=192.0.2.1 \
				=> 431/4350 The vm with hostName MULTI already exists in the network domain:`},
		{"deploy: last the address", deploy + ` ipaddress=192.0.2.1 => 530/4250 {internal}
			admin deployVirtualMachine zoneid={zone} serviceofferingid={small} templateid={template} networkids={net} ipaddress=192.0.2.1 \
				account=k8s \
			domainid={ROOT} => 530/4250 Unable to acquire Guest IP address for network Network {`},
		{"deploy: answers id and job", "& " + deploy + ` => /id~- /jobid~-`},
		{"deploy: defaults", deploy + ` => name~VM- displayname~VM- state=Running nic#=1 nic.0.isdefault=true haenable=false keypairs=-`},

		{"add a NIC: required parameters", addNIC + ` networkid=- => 431/9999 missing parameter networkid`},
		{"add a NIC: access", `other addNicToVirtualMachine virtualmachineid={vm} networkid={second} => 531/4365 {denied}`},
		{"add a NIC: the network's owner", `root createNetwork name=theirs displaytext=x zoneid={zone} networkofferingid={isolated} \
				account=other domainid={ROOT} > theirs
			` + addNIC + ` networkid={theirs} => job 530 Unable to use network with id= {theirs}, permission denied`},
		{"add a NIC: then one for each network", addNIC + ` networkid={net} ipaddress=x => job 530 A NIC already exists for VM:`},
		{"add a NIC: a MAC address that is not valid is replaced", addNIC + ` macaddress=x => nic.1.macaddress~:`},
		{"add a NIC: then the address", addNIC + ` ipaddress=nonsense => job 431 Invalid format for IP address parameter: nonsense`},
		{"add a NIC: then the host name", deploy + ` name=multi networkids={second}
			` + addNIC + ` => job 530 Network second already has a vm with host name: multi`},
		{"add a NIC: last the free addresses", addNIC + ` ipaddress=192.0.2.1 => job 530 Insufficient capacity when adding NIC to`},
		{"add a NIC: answers the VM", addNIC + ` ipaddress=10.1.1.50 => nic#=2 nic.1.deviceid=1 nic.1.ipaddress=10.1.1.50 nic.1.isdefault=false
			k8s-owner listNetworks id={second} => state=Implemented`},
		{"add a NIC: answers a job", "& " + addNIC + ` => /jobid~- /id=-`},

		{"remove a NIC: access", `other removeNicFromVirtualMachine virtualmachineid={vm} nicid={first} => 531/4365 {denied}`},
		{"remove a NIC: the default", removeNIC + ` => job 431 nic is default.`},
		{"remove a NIC: of another VM", deploy + ` name=two > two nic.0.id=theirs
			` + removeNIC + ` nicid={theirs} => job 431 is not a nic on`},
		{"remove a NIC: with rules", deploy + ` name=two networkids={second} > vm
			k8s-owner addNicToVirtualMachine virtualmachineid={vm} networkid={net} > nic.1.id=first
			k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm}
			` + removeNIC + ` => job 431 nic has associated Port forwarding or Load balancer or Static NAT rules.`},
		{"remove a NIC: again", addNIC + ` > nic.1.id=other
			` + removeNIC + ` nicid={other} => nic#=1
			+ nicid={other} => job 431 Unable to find a nic with id`},
	})
}
