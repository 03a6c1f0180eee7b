// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// placeNamed names the nodes' network, zone and project in annotations, and then an unknown network.
func placeNamed(e *env) string {
	words := []string{"network=" + e.networkName, "zone=" + e.world.Offers.Zone}
	if e.project != "" {
		words = append(words, "project="+e.project)
	}
	e.serves(e.served("web", words...), "80")
	e.create("elsewhere", "network=no-such-network")
	text := e.event("elsewhere", "NoSuchNetwork")
	must.Be(strings.Contains(text, "no-such-network"), "the Event does not name the network: %s", text)
	return "served; an unknown network is refused by name"
}

// refused checks Services that cannot be served: the API server denies them, or they get an Event without any call that
// changes something.
func refused(e *env) string {
	must.Be(must.Catch(func() { e.create("bad", "algorithm=fastest") }) != nil,
		"the API server takes an annotation that does not parse")
	mark := e.proxy.Mark()
	for _, c := range []struct {
		name, reason, change string
		alsoInVPC            bool
	}{
		{"statistics-port", "ReservedPort", "8081", true},
		// The controller decides what an operator allows.
		{"tenants-network", "NotAllowed", "network=" + e.networkName, true},
		{"taken-address", "AddressUnavailable", "address=192.0.2.1", true},
		{"internal", "UnsupportedNetwork", "internal=true", false},
	} {
		if e.vpcID == "" || c.alsoInVPC {
			e.create(c.name, c.change)
			e.event(c.name, c.reason)
		}
	}

	e.create("of-others", "class=example.org/other")
	e.idle()
	s := e.get("of-others")
	must.Be(len(s.Status.LoadBalancer.Ingress) == 0 && len(s.Finalizers) == 0,
		"a Service with a loadBalancerClass is left to others, and is %v", s)
	for _, c := range e.proxy.Since(mark) {
		// CloudStack itself refuses the address.
		must.Be(!c.Changes() || c.Command == "associateIpAddress", "a refused Service led to the call %s", c.Command)
	}

	return "by the API server: bad value, tenant's network; by Event: port 8081, an address that is not there, an " +
		"internal balancer without a provider; a loadBalancerClass is left to others"
}

// internal creates a Service with an address of a tier with internal load balancing, to which all nodes are attached.
func internal(e *env) string {
	const tier = "internal-tier"
	id := e.world.Tier(e.ctx, tier, e.vpcID, e.aclID, e.world.Offers.InternalTier, 2)
	e.plug(id)
	inTier := []string{"internal=true", "network=" + e.world.Name(tier)}
	ip := e.served("web", append(inTier, "80,443")...)
	e.internalIs(id, ip, 80, 443)
	e.edit("web", "443,8443")
	e.internalIs(id, ip, 443, 8443)
	e.remove("web")
	e.internalIs(id, ip)
	// Create the Service again with the same address: leftovers of the first one would prevent that.
	again := e.served("again", append(inTier, "address="+ip)...)
	must.Be(again == ip, "served at %s, want %s", again, ip)
	return "2 ports at " + ip + ", a port replaced, removed; the address used again"
}

// internalIs waits until the internal load balancers at an address have exactly these ports and all nodes.
func (e *env) internalIs(networkID, ip string, want ...int) {
	e.until(fmt.Sprintf("internal balancers at %s for ports %v", ip, want), func() {
		var got []int
		for _, b := range must.Get(e.world.User.ListInternalLoadBalancers(e.ctx,
			cloudstack.InternalLoadBalancerQuery{NetworkID: networkID})) {
			if b.Address == ip {
				got = append(got, b.Port)
				members := e.members(b.ID)
				must.Be(slices.Equal(members, e.names()), "members are %v", members)
			}
		}
		slices.Sort(got)
		must.Be(slices.Equal(got, want), "they are for ports %v", got)
	})
}

// certificate terminates TLS at the router with a certificate, then with another one.
func certificate(e *env) string {
	for _, n := range must.Get(e.world.User.ListNetworks(e.ctx,
		cloudstack.NetworkQuery{ID: e.networkID, ProjectID: e.projectID})) {
		can(strings.EqualFold(n.Services["Lb"]["SslTermination"], "true"),
			"the network's load balancer cannot terminate TLS (capability SslTermination, CloudStack 4.22 or newer)")
	}

	var ids []string
	e.cleanup(func() {
		for _, id := range ids {
			e.do("deleteSslCert", world.Params{"id": id})
		}
	})

	e.cleanup(e.removeAll) // runs before the deletion of the certificates, which are in use
	for i := range 2 {
		host := fmt.Sprintf("lb%d.example.org", i)
		crt, key := must.Get2(cert.GenerateSelfSignedCertKey(host, nil, nil))
		// CloudStack reads only this format.
		der := must.Get(x509.MarshalPKCS8PrivateKey(must.Get(keyutil.ParsePrivateKeyPEM(key))))
		block, _ := pem.Decode(crt)
		ids = append(ids, e.do("uploadSslCert", world.Params{
			"name": e.world.Name(fmt.Sprintf("cert%d", i)), "certificate": string(pem.EncodeToMemory(block)),
			"privatekey": string(pem.EncodeToMemory(&pem.Block{Type: keyutil.PrivateKeyBlockType, Bytes: der})),
		}.Set("projectid", e.projectID)).Text("id"))
	}

	ip := e.served("web", "80,443", "ssl-certificate="+ids[0], "ssl-ports=443")
	for _, id := range ids {
		e.edit("web", "ssl-certificate="+id)
		e.rulesAre(ip, "certificate "+id+" to be bound to port 443", func(rules map[string]rule) {
			tls, plain := rules["443"], rules["80"]
			must.Be(tls.Protocol == "ssl" && plain.Protocol == "tcp", "protocols are %q and %q", tls.Protocol,
				plain.Protocol)
			bound := must.Get(e.world.User.ListCertificatesOfRule(e.ctx, tls.ID))
			must.Be(slices.Equal(bound, []string{id}), "bound are %v", bound)
		})
	}

	return "TLS on one port of two; another certificate bound in place"
}

// nodeLife adds two nodes. It stops and destroys the VM of the first, and expunges the VM of the second.
func nodeLife(e *env) string {
	ip := e.served("web")
	vms := e.world.VMs(e.ctx, e.projectID, e.networkID, "life-1", "life-2")
	e.join(e.ctx, e.cluster, vms...)
	e.vms = append(e.vms, vms...)
	e.initialized(e.names()...)
	e.serves(ip, "80")
	first, second := vms[0], vms[1]
	e.nodes[first.Name].Stop()
	e.nodes[second.Name].Stop()
	e.do("stopVirtualMachine", world.Params{"id": first.ID, "forced": "true"})
	e.until("the taint of a node whose VM is stopped", func() {
		has := taints(e.node(first.Name))
		must.Be(slices.Contains(has, shutdown), "its taints are %v", has)
	})

	for vm, expunge := range map[world.VM]string{first: "false", second: "true"} {
		e.world.Admin.Do(e.ctx, "destroyVirtualMachine", world.Params{"id": vm.ID, "expunge": expunge})
	}

	for _, vm := range vms {
		e.until("the Node "+vm.Name+" to be deleted", func() {
			if _, err := e.cluster.Client.CoreV1().Nodes().Get(e.ctx, vm.Name,
				metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				must.Fail("it is there, with taints %v", taints(e.node(vm.Name)))
			}
		})
	}

	e.vms = slices.DeleteFunc(e.vms, func(vm world.VM) bool { return slices.Contains(vms, vm) })
	e.serves(ip, "80")
	left := must.Get(e.cluster.Client.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{})).Items
	must.Be(len(left) == len(e.vms), "there are %d nodes, want %v", len(left), e.names())
	return "2 nodes joined and became members; stopped: taint; destroyed and expunged: Nodes deleted, members gone"
}

// twoNICs attaches all nodes to a second network. A Service that names this network is served there.
func twoNICs(e *env) string {
	const second = "second-net"
	id, err := must.Try(func() string {
		return e.world.Network(e.ctx, second, e.world.Offers.Isolated, world.Params{})
	})
	can(err == nil, "no second isolated network: %v", err)
	e.plug(id)

	// The controller lists VMs again before it refuses a Service, so it sees the new interfaces at once.
	ip := e.served("web", "network="+e.world.Name(second))
	e.serves(ip, "80")
	for network, ip := range map[string]string{id: ip, e.networkID: e.served("unsaid")} {
		rules := must.Get(e.world.User.ListLoadBalancerRules(e.ctx,
			cloudstack.LoadBalancerRuleQuery{NetworkID: network}))
		here := slices.ContainsFunc(rules,
			func(r cloudstack.LoadBalancerRule) bool { return r.PublicIP == ip && r.NetworkID == network })
		must.Be(here, "none of the %d rules in network %s is at %s", len(rules), network, ip)
	}

	return "served by the interfaces that were added, in the network that the Service names; without a name by the " +
		"default ones"
}

// plug attaches all nodes to a network. At the end of the scenario, the Services are deleted and the interfaces
// removed.
func (e *env) plug(networkID string) {
	for _, vm := range e.vms {
		e.do("addNicToVirtualMachine", world.Params{"virtualmachineid": vm.ID, "networkid": networkID})
		e.cleanup(func() {
			for _, now := range must.Get(e.world.User.ListVirtualMachines(e.ctx,
				cloudstack.VMQuery{ID: vm.ID, ProjectID: e.projectID})) {
				for _, nic := range now.NICs {
					if nic.NetworkID == networkID {
						e.do("removeNicFromVirtualMachine", world.Params{"virtualmachineid": vm.ID, "nicid": nic.ID})
					}
				}
			}
		})
	}
	e.cleanup(e.removeAll)
}
