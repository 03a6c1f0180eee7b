// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

const networkWorld = `
zones: [{name: z, publicRanges: [203.0.113.10-203.0.113.40]}]
domains: [{path: ROOT/d}, {path: ROOT/other}]
accounts:
  - {name: system, role: Root Admin}
  - {name: a, domain: d, users: [{name: a}]}
  - {name: b, domain: d, users: [{name: b}]}
  - {name: da, domain: d, role: Domain Admin, users: [{name: da}]}
  - {name: few, domain: d, limits: {networks: 1, vpcs: 0, publicIPs: 1}, users: [{name: few}]}
projects: [{name: p, owner: a}]
networks:
  - {name: net, account: a}
  - {name: net2, account: a}
virtualMachines:
  - {name: n1, account: a, nics: [{network: net, ip: 10.1.1.21, secondary: [10.1.1.121]}]}
  - {name: n2, account: a, nics: [{network: net, ip: 10.1.1.22}]}
  - {name: m1, account: a, nics: [{network: net2, ip: 10.1.1.31}]}
`

// startNetwork starts networkWorld with names for the objects that many lines use.
func startNetwork(t *testing.T) *env {
	t.Helper()
	h := startYAML(t, networkWorld)
	return h.set("zone", h.idOf("zones", "z"), "d", h.idOf("domains", "d"), "net", h.netID("net"), "n1", h.vmID("n1"), "n2", h.vmID("n2"),
		"m1", h.vmID("m1"), "vpcs", h.sim.st.VPCOffering(store.VPCOfferingName).UUID)
}

const newVPC = "d/a createVPC name=v displaytext=text cidr=10.2.0.0/16 vpcofferingid={vpcs} zoneid={zone} => state=Enabled > vpc"

const newTier = `
	d/a createNetwork name=t1 gateway=10.2.1.1 netmask=255.255.255.0 zoneid={zone} networkofferingid={tier} vpcid={vpc} =>` +
	" state=Allocated vpcid={vpc} aclid=- > t1\n"

func TestCreateNetworkRefused(t *testing.T) {
	t.Parallel()
	h := startNetwork(t)
	h.play(`
		d/few createNetwork zoneid={zone} name=first networkofferingid={isolated}
		d/few createNetwork zoneid={zone} name=x networkofferingid={isolated} => 535/4370 is exceeded
		d/a createNetwork zoneid={zone} name=x networkofferingid={isolated} acltype=Domain => 431/4350 AclType should be Account for network of
		+ name=- => 431/9999 missing parameter name
		+ acltype=x => 431/4350 Incorrect aclType specified
		+ acltype=- subdomainaccess=true => 431/4350 can be specified only with aclType=Domain
		+ acltype=- networkofferingid={shared} => 431/4350 This user can only create an Isolated network
		+ acltype=- vlan=300 => 431/4350 Only ROOT admin is allowed to specify vlanId
		+ acltype=- gateway=10.0.0.1 netmask=255.0.0.0 => 431/4350 Cidr size can't be less than 22
		+ acltype=- gateway=x netmask=255.255.255.0 => 431/4350 Gateway parameter is invalid
		+ acltype=- gateway=10.1.1.255 netmask=255.255.255.0 => 431/4350 Either the IP is broadcast or network IP.
		+ acltype=- gateway=10.1.1.1 netmask=255.0.255.0 => 431/4350 Invalid netmask
		+ acltype=- gateway=8.8.8.1 netmask=255.255.255.0 => 431/4350 is not RFC 1918 or 6598 compliant
		+ acltype=- networkofferingid={tier} => 431/4350 Network offering can be used for VPC networks only
		+ acltype=- account=b domainid={d} => 531/4365 Can't create/list resources for account b
		+ acltype=- networkofferingid={zone} => 431/9999 entity does not exist
		d/da createNetwork zoneid={zone} name=x networkofferingid={shared} => 431/4350 AclType must be specified for shared network created by
		admin createNetwork zoneid={zone} name=x networkofferingid={l2vlan} => 431/4350 Vlan has to be specified
		+ networkofferingid={l2} vlan=300 => 431/4350 Can't specify vlan
		+ vlan=150 => 431/4350 is already being used for dynamic vlan allocation
		+ networkofferingid={shared} vlan=301 => 431/4350 Gateway/netmask are required when creating Shared networks.
		+ networkofferingid={isolated} account=zz domainid={d} => 431/4350 Unable to find account zz in domain Domain {
	`)
}

func TestNetworkLife(t *testing.T) {
	t.Parallel()
	startNetwork(t).play(`
		d/b deleteNetwork id={net} => 531/4365 {denied}
		d/a deleteNetwork id={net} => job 530 Failed to delete network
		d/a deleteNetwork id={net} forced=true => job 431 can only be called by root admins
		d/a createNetwork zoneid={zone} name=short networkofferingid={isolated} > n
		d/a associateIpAddress networkid={n} > ip
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=80
		d/a deleteNetwork id={n}
		d/a listNetworks id={n} => count 0
		d/a listPublicIpAddresses id={ip} => count 0  # its addresses are free
		d/a listFirewallRules => count 0
	`)
}

func TestPortForwarding(t *testing.T) {
	t.Parallel()
	startNetwork(t).play(`
		d/a associateIpAddress networkid={net} > ip
		d/a createPortForwardingRule ipaddressid={ip} protocol=tcp publicport=22 privateport=22 virtualmachineid={n1} => publicendport=22 \
			privateport=22 vmguestip=10.1.1.21 state=Active cidrlist= virtualmachinename=n1 > rule
		d/a listFirewallRules ipaddressid={ip} => count 1  # the firewall is opened unless told otherwise
		d/a listPublicIpAddresses id={ip} => hasrules=true

		d/a createPortForwardingRule ipaddressid={ip} protocol=tcp publicport=1 privateport=1 virtualmachineid={m1} \
			=> 431/4350 Vm doesn't belong to network
		+ publicport=70000 => 431/4350 publicPort is an invalid value: 70000
		+ publicendport=3 virtualmachineid={n1} => 431/4350 should be of equal sizes
		+ publicendport=3 privateport=4 privateendport=6 virtualmachineid={n1} => 431/4350 Private port start should be equal to public port start
		+ virtualmachineid={n2} vmguestip=10.1.1.121 => 431/4350 IP Address is not in the VM nic's network
		+ virtualmachineid={n1} protocol=tcp-proxy => 431/4350 Protocol tcp-proxy is not supported in zone 1
		+ publicport=20 publicendport=23 privateport=20 privateendport=23 virtualmachineid={n2} => 537/4360 The range specified, 20-23, conflicts
		+ publicport=22 privateport=22 virtualmachineid={n2} protocol=udp vmguestip=10.1.1.22
		d/a createLoadBalancerRule publicipid={ip} name=x algorithm=roundrobin publicport=22 privateport=1 protocol=tcp \
			=> 537/9999 conflicts with rule FirewallRule {
		+ publicport=80
		d/a createPortForwardingRule ipaddressid={ip} protocol=tcp publicport=80 privateport=80 virtualmachineid={n1} \
			=> 537/4360 "purpose":"LoadBalancing"
		d/b createPortForwardingRule ipaddressid={ip} protocol=tcp publicport=1 privateport=1 virtualmachineid={n1} => 531/4365 {denied}
		+ publicport=70000 => 531/4365 {denied}  # access comes before all other checks

		d/a createPortForwardingRule ipaddressid={ip} protocol=udp publicport=53 privateport=1 virtualmachineid={n1} cidrlist=0.0.0.0/1,10.0.0.0/8 \
			openfirewall=false
		+ virtualmachineid={n2} cidrlist=10.0.0.0/7 => cidrlist=10.0.0.0/7  # overlaps, but no range is the same
		+ virtualmachineid={n2} cidrlist=- => cidrlist=
		+ virtualmachineid={n2} cidrlist=128.0.0.0/1,10.0.0.0/8 => 537/4360 The range specified, 53-53, conflicts
		+ cidrlist=10.0.0.0/40 => 431/4350 The given source CIDR [10.0.0.0/40] is invalid.
		d/a listFirewallRules ipaddressid={ip} => count 3  # none of port 53
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=5000 endport=5001 cidrlist=0.0.0.0/0
		d/a createPortForwardingRule ipaddressid={ip} protocol=tcp publicport=5001 privateport=1 virtualmachineid={n1} => 537/4360 "purpose":"Firewall"
		d/a listPortForwardingRules ipaddressid={ip} keyword=none page=1 pagesize=2 => count 5

		d/a updatePortForwardingRule id={rule} privateport=2222 virtualmachineid={n1} vmguestip=10.1.1.121 => vmguestip=10.1.1.121
		d/a updatePortForwardingRule id={rule} vmguestip=10.1.1.21 => job 431 vmguestip should be set along with virtualmachineid
		d/a createTags resourceids={rule} resourcetype=PortForwardingRule tags[0].key=k tags[0].value=v
		d/a listPortForwardingRules tags[0].key=k tags[0].value=v => id={rule}
		d/b listPortForwardingRules id={rule} => count 0
		d/a deleteFirewallRule id={rule} => job 431 having purpose Firewall
		d/b deletePortForwardingRule id={rule} => 531/4365 {denied}
		&d/a deletePortForwardingRule id={rule}
		d/a listPortForwardingRules id={rule} => state=Deleting
		wait 20s
		d/a deletePortForwardingRule id={rule} => 431/9999 entity does not exist
		d/a disassociateIpAddress id={ip}
		d/a listPortForwardingRules => count 0
	`)
}

func TestStaticNAT(t *testing.T) {
	t.Parallel()
	startNetwork(t).play(`
		d/a associateIpAddress networkid={net} > ip ipaddress=address
		d/a associateIpAddress networkid={net} > other
		d/a enableStaticNat ipaddressid={ip} virtualmachineid={m1} => 431/4350 Vm doesn't belong to the network with specified id
		d/a listPublicIpAddresses issourcenat=true associatednetworkid={net} > nat
		d/a enableStaticNat ipaddressid={nat} virtualmachineid={n1} => 431/4350 is a sourceNat ip address
		d/a enableStaticNat ipaddressid={ip} virtualmachineid={n1} => success=true
		d/a listPublicIpAddresses id={ip} isstaticnat=true => isstaticnat=true virtualmachineid={n1} vmipaddress=10.1.1.21 virtualmachinetype=User
		d/a listVirtualMachines id={n1} => nic.0.publicip={address}
		d/a enableStaticNat ipaddressid={ip} virtualmachineid={n2} => 537/9999 already assigned to antoher vm
		d/a enableStaticNat ipaddressid={other} virtualmachineid={n1} => 431/4350 is already associated with another public ip
		d/a createPortForwardingRule ipaddressid={ip} protocol=tcp publicport=1 privateport=1 virtualmachineid={n1} \
			=> 431/4350 has static nat enabled
		d/a createLoadBalancerRule publicipid={ip} name=x algorithm=source publicport=1 privateport=1 => 537/9999 Can't do load balance on ip
		d/a createPortForwardingRule ipaddressid={other} protocol=tcp publicport=1 privateport=1 virtualmachineid={n1}
		d/a enableStaticNat ipaddressid={other} virtualmachineid={n2} => 537/9999 already has PortForwarding rules assigned
	`)
}

func TestVPCLife(t *testing.T) {
	t.Parallel()
	startNetwork(t).play(newVPC + newTier + `
		d/a listVPCs id={vpc} => cidr=10.2.0.0/16 vpcofferingname="Default VPC offering" displaytext=text account=a network#=1
		d/a listPublicIpAddresses vpcid={vpc} => issourcenat=true > nat  # its source NAT address comes with it
		d/a associateIpAddress vpcid={vpc} > ip
		d/a createLoadBalancerRule publicipid={ip} name=n algorithm=source publicport=80 privateport=1 networkid={t1}
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=80 => 431/4350 There is no new provider for IP
		d/b createVPC name=o cidr=10.2.0.0/16 vpcofferingid={vpcs} zoneid={zone} > foreign
		d/b createNetworkACLList name=l vpcid={foreign} > list

		d/a createNetwork zoneid={zone} name=x networkofferingid={tier} vpcid={vpc} gateway=10.3.1.1 netmask=255.255.255.0 \
			=> 431/4350 is not within vpc VPC {
		+ gateway=10.2.1.1 => 431/4350 crosses other network cidr Network {
		+ gateway=10.2.9.1 networkofferingid={isolated} => 431/4350 Network offering can't be used for VPC networks
		+ gateway=10.2.9.1 aclid={list} => 431/4350 does not belong to the VPC [
		+ name=t2 gateway=10.2.2.1 > t2
		+ name=t3 gateway=10.2.3.1 > t3
		+ name=t4 gateway=10.2.4.1 => 530/4250 {internal}

		d/a deleteVPC id={vpc} => job 431 as its used by 3 networks
		d/b deleteVPC id={vpc} => 531/4365 {denied}
		d/a listNetworks vpcid={vpc} => count 3
		d/a deleteNetwork id={t1}
		+ id={t2}
		+ id={t3}
		d/a listVPCs id={vpc} => network#=0
	`)
}

func TestCreateVPCRefused(t *testing.T) {
	t.Parallel()
	h := startNetwork(t)
	h.set("nsx", h.sim.st.VPCOffering("VPC offering with NSX - NAT Mode").UUID).play(`
		d/a createVPC name=v vpcofferingid={vpcs} zoneid={zone} => 431/4350 VPC cidr or cidr size must be specified
		+ cidr=10.2.0.0 => 431/4350 Invalid CIDR specified 10.2.0.0
		+ cidr=8.8.0.0/16 => 431/4350 Guest Cidr 8.8.0.0/16 is not RFC1918 compliant
		+ cidr=10.2.0.0/16 vpcofferingid={nsx} => 431/4350 should be enabled in at least one physical network
		+ cidr=10.2.0.0/16 vpcofferingid={zone} => 431/9999 entity does not exist
		d/few createVPC name=v cidr=10.2.0.0/16 vpcofferingid={vpcs} zoneid={zone} => 535/4370 is exceeded
		d/a listVPCs => count 0
		d/a listVPCOfferings => count 7
		d/a listVPCOfferings isdefault=true => name="Default VPC offering"
		d/a createVPC name=v cidr=10.2.0.0/16 vpcofferingid={vpcs} zoneid={zone} > vpc
		d/a listPublicIpAddresses vpcid={vpc} issourcenat=true > nat
		d/a deleteVPC id={vpc}
		d/a listPublicIpAddresses id={nat} => count 0
	`)
}

func TestNetworkACLs(t *testing.T) {
	t.Parallel()
	startNetwork(t).play(newVPC + newTier + `
		d/a createNetworkACLList name=l vpcid={vpc} > l
		d/a createNetworkACLList name=global => 531/4365 Only Root Admin can create global ACLs.
		d/b createNetworkACLList name=l vpcid={vpc} => 531/4365 {denied}
		d/a createNetworkACL aclid={l} protocol=tcp startport=80 \
			=> endport=80 cidrlist=0.0.0.0/0,::/0 traffictype=Ingress action=Allow state=Active number=1 > item
		d/a createNetworkACL aclid={l} protocol=tcp number=1 => 431/4350 ACL item with number 1 already exists
		+ number=0 => 431/4350 Invalid number [0]
		+ number=- protocol=300 => 431/4350 Invalid protocol number: 300
		+ number=- traffictype=x => 431/4350 Invalid traffic type x
		+ number=- protocol=all startport=1 => 431/4350 start port and end port must be null if protocol = 'all'
		+ number=- startport=70000 => 431/4350 Start public port is an invalid value: 70000
		+ number=- icmptype=1 => 431/4350 Can specify icmpCode and icmpType for ICMP protocol only
		+ number=- protocol=1 startport=1 => 431/4350 Can't specify start/end port when protocol is ICMP
		+ number=- aclid=- => 431/4350 Cannot create Network ACL Item. ACL Id or network Id is r
		d/a createNetworkACL networkid={t1} protocol=icmp => icmptype=-1 aclname~VPC_v_Tier_t1_ACL_  # a tier without a list gets one

		d/a replaceNetworkACLList aclid={l} networkid={t1}
		d/a deleteNetworkACLList id={l} => job 530 ACL is still associated with 1 tier(s)
		d/a listNetworkACLLists name=default_deny > deny
		d/a replaceNetworkACLList aclid={deny} networkid={t1}
		d/a createNetworkACL networkid={t1} protocol=tcp => 431/4350 Default ACL cannot be modified
		d/a deleteNetworkACLList id={deny} => job 431 Default ACL cannot be removed
		d/a replaceNetworkACLList aclid={l} => job 530 can't be null at the same time

		d/a createNetworkACL aclid={l} protocol=udp startport=53 > second
		d/a listNetworkACLs aclid={l} => number=2 /networkacl.1.number=1
		d/a deleteNetworkACL id={item}
		d/a deleteNetworkACL id={item} => 431/9999 entity does not exist
		d/a deleteNetworkACLList id={l}
		d/a listNetworkACLLists name=l => count 0
	`)
}
