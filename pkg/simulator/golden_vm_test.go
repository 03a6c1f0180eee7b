// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// beforeEnd are recordings made while the job of the call before still ran;
// those in midJob were made some time after it had started.
var (
	beforeEnd = setOf("listVirtualMachines.state-stopped-while-deploying", "listVirtualMachines.state-starting-while-deploying",
		"listVirtualMachines.state-running-while-stopping", "listVirtualMachines.state-stopping-while-stopping")
	midJob = setOf("listVirtualMachines.state-starting-while-deploying", "listVirtualMachines.state-stopping-while-stopping")
)

const (
	life1    = "a6796bae-1e9e-42dc-a918-83f6780cb913"
	life2    = "435adcb6-8970-4ceb-82fa-520469200bfb"
	injected = "8d3c2822-2d7b-4ac1-b9ac-20c0945a2d83"
	// net2Rule is a rule on the source NAT address of k8s-net2.
	net2Rule = "9057625a-e9d2-44e5-a64a-f26df35bdb12"
)

// vmPreparations make calls on VMs that were made between the recordings.
var vmPreparations = map[string]func(*replayer){
	"listVirtualMachines.state-stopped-while-deploying": func(r *replayer) {
		p := r.byName["deployVirtualMachine.ok"].Params
		a := r.h.ok(r.h.call("k8s/kubeadmin", "deployVirtualMachine", "name", "life-2", "zoneid", text(p["zoneid"]), "networkids", text(p["networkids"]),
			"serviceofferingid", text(p["serviceofferingid"]), "templateid", text(p["templateid"])))
		r.h.sim.st.rekey(a.str("id"), life2)
		r.h.sim.st.rekey(a.str("jobid"), "a51c3489-3697-42e9-8cc2-7c05eec19a01")
		r.adoptGuestIP(life2, r.byName["listVirtualMachines.state-stopped-while-deploying"].index)
	},
	"listVirtualMachines.after-name-while-running": func(r *replayer) {
		r.h.ok(r.h.call("k8s/kubeadmin", "updateVirtualMachine", "id", life1, "name", "life-renamed"))
	},
	"listLoadBalancerRuleInstances.assigned-while-stopped": func(r *replayer) {
		r.h.ok(r.h.call("k8s/kubeadmin", "updateVirtualMachine", "id", life1, "name", "life-renamed2"))
		r.h.ok(r.h.call("k8s/kubeadmin", "assignToLoadBalancerRule", "id", "c4e1d986-a590-4f6c-b68e-7ac4f6ccf5e0", "virtualmachineids", life1))
	},
	"listVirtualMachines.all-with-destroyed": func(r *replayer) { r.h.clock.Step(statsInterval) },
	"expungeVirtualMachine.user": func(r *replayer) {
		r.h.ok(r.h.call("k8s/kubeadmin", "destroyVirtualMachine", "id", life2))
	},
	"listAccounts.self": func(r *replayer) { // expunge.delay was 20 s
		r.h.ok(r.h.root("expungeVirtualMachine", "id", life1))
	},
	"deployVirtualMachine.limit-reached": func(r *replayer) {
		a, _ := r.h.sim.st.accounts.get("2578845e-6284-49d4-a658-75c95d8c7c92")
		a.limits = map[string]int64{"virtualMachines": 1}
	},
	"inject.deployVirtualMachine-start-fails.vm": func(r *replayer) {
		a, _ := r.h.sim.st.accounts.get("2578845e-6284-49d4-a658-75c95d8c7c92")
		a.limits = nil
		remove := r.h.sim.Inject(Fault{Command: "deployVirtualMachine", Kind: FaultJobFails})
		defer remove()
		p := r.byName["deployVirtualMachine.ok"].Params
		d := r.h.ok(r.h.call("k8s/kubeadmin", "deployVirtualMachine", "name", "inj-vm", "zoneid", text(p["zoneid"]), "networkids", text(p["networkids"]),
			"serviceofferingid", text(p["serviceofferingid"]), "templateid", text(p["templateid"])))
		r.h.sim.st.rekey(d.str("id"), injected)
		r.adoptGuestIP(injected, r.byName["inject.deployVirtualMachine-start-fails.vm"].index)
	},
	"createLoadBalancerRule.vpc-tier-not-implemented": func(r *replayer) {
		r.h.ok(r.h.root("expungeVirtualMachine", "id", injected))
	},
	"assignToLoadBalancerRule.second-nic-network": func(r *replayer) {
		ip, _ := r.h.sim.st.ips.find(func(ip *publicIP) bool { return ip.sourceNAT && ip.network != nil && ip.network.name == "k8s-net2" })
		a := r.h.ok(r.h.call("k8s/kubeadmin", "createLoadBalancerRule", "publicipid", ip.uuid, "name", "net2", "publicport", "80", "privateport", "30080",
			"algorithm", "roundrobin", "protocol", "tcp", "openfirewall", "false"))
		r.h.sim.st.rekey(a.str("id"), net2Rule)
	},
	"listLoadBalancerRuleInstances.after-both-ids-and-map": func(r *replayer) { // and a remove by both ways
		r.h.ok(r.h.call("k8s/kubeadmin", "removeFromLoadBalancerRule", "id", net2Rule, "virtualmachineids", "e749584e-f4a5-455a-a80e-33e89d04c62c"))
	},
	"admin.listVirtualMachines.id-listall": func(r *replayer) {
		r.h.ok(r.h.call("k8s/kubeadmin", "deleteLoadBalancerRule", "id", net2Rule))
	},
}

// nameHost gives the next host of the world the name of the recording.
func (r *replayer) nameHost(v view) {
	for _, h := range r.h.sim.st.hosts.rows {
		if h.uuid == v.str("id") {
			return
		}
		if h.ip == "" {
			h.name, h.ip = v.str("name"), v.str("ipaddress")
			r.h.sim.st.hosts.rename(h, v.str("id"))
			return
		}
	}
}

// adoptGuestIP gives a new VM or secondary address the guest addresses of the
// recording: the server chooses addresses at random and counts its routers' MACs.
func (r *replayer) adoptGuestIP(id string, index int) {
	st := r.h.sim.st
	if v, ok := r.nearest(id, index, "virtualmachine"); ok {
		m, _ := st.vms.get(id)
		nics, _ := v.obj["nic"].([]any)
		for i, x := range nics {
			if o, ok := x.(map[string]any); ok && m != nil && i < len(m.nics) {
				m.nics[i].ip, m.nics[i].mac = text(o["ipaddress"]), text(o["macaddress"])
			}
		}
	}
	if v, ok := r.nearest(id, index, "nicsecondaryip"); ok {
		if s, found := st.secondary.get(id); found {
			s.ip = v.str("ipaddress")
		}
	}
}
