// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

var vmRefs = map[string]refKind{"id": refVM, "ids": refVM}

var vmCommands = []command{
	{name: "listVirtualMachines", refs: vmRefs, run: listVirtualMachines},
	{name: "updateVirtualMachine", refs: vmRefs, write: true, run: updateVirtualMachine},
	{name: "recoverVirtualMachine", refs: vmRefs, write: true, run: recoverVirtualMachine},
	{name: "startVirtualMachine", refs: vmRefs, submit: startVirtualMachine, class: "user.vm.StartVMCmd"},
	{name: "stopVirtualMachine", refs: vmRefs, submit: stopVirtualMachine, class: "user.vm.StopVMCmd"},
	{name: "destroyVirtualMachine", refs: vmRefs, submit: destroyVirtualMachine, class: "user.vm.DestroyVMCmd"},
	{name: "expungeVirtualMachine", refs: vmRefs, submit: expungeVirtualMachine, class: "admin.vm.ExpungeVMCmd"},
}

func listVirtualMachines(c *call) (any, error) {
	if c.given("id") && c.has("ids") {
		return nil, invalid("Specify either id or ids but not both parameters")
	}
	details := vmDetails{}
	for _, d := range c.list("details") {
		if !slices.Contains(vmDetailNames, d) {
			return nil, invalid("The details parameter contains a non permitted value. The allowed values are [%s]", strings.Join(vmDetailNames, ", "))
		}
		details[d] = true
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	seesDestroyed := !c.caller.account.normal() || c.st.settings.UserViewDestroyed
	ids := map[*vm]bool{}
	for _, r := range c.lists["ids"] {
		if v, ok := r.obj.(*vm); ok {
			ids[v] = true
		}
	}
	tags := c.tagFilter()
	var out []*vm
	for _, v := range c.st.vms.rows {
		switch {
		case v.removed || !in(v.owner) || !matches(c, "id", v) || len(ids) > 0 && !ids[v]:
		case (v.state == vmDestroyed || v.state == vmExpunging) && !seesDestroyed:
		case !c.visible("displayvm", v.hidden) || !v.hasTags(tags) || !c.vmMatches(v):
		default:
			out = append(out, v)
		}
	}
	return page(c, "virtualmachine", out, func(v *vm) vmView { return c.viewVM(v, details) })
}

// vmMatches applies the filters on the VM's own attributes.
func (c *call) vmMatches(v *vm) bool {
	if n := c.str("name"); n != "" && !strings.EqualFold(n, v.name) {
		return false
	}
	if s := c.str("state"); s != "" {
		if strings.EqualFold(s, "Present") {
			if v.state == vmDestroyed || v.state == vmExpunging {
				return false
			}
		} else if !strings.EqualFold(s, v.state) {
			return false
		}
	}
	if k := c.str("keyword"); k != "" && !like(v.display, k) && !like(v.name, k) && !strings.EqualFold(v.state, k) &&
		!slices.ContainsFunc(v.nics, func(n *nic) bool { return like(n.ip, k) }) {
		return false
	}
	if h := c.str("hypervisor"); h != "" && !strings.EqualFold(h, v.hypervisor) {
		return false
	}
	if !matches(c, "zoneid", v.zone) || !matches(c, "templateid", v.template) || !matches(c, "serviceofferingid", v.offering) ||
		!matches(c, "userid", v.user) || c.given("hostid") && !matches(c, "hostid", v.host) {
		return false
	}
	for _, none := range []string{"isoid", "groupid", "affinitygroupid", "securitygroupid", "autoscalevmgroupid", "backupofferingid", "storageid", "podid", "clusterid"} {
		if c.given(none) {
			return false
		}
	}
	if b := c.optBool("haenable"); b != nil && *b != v.haEnabled {
		return false
	}
	if c.given("networkid") {
		n := arg[*network](c, "networkid")
		if n == nil || v.nicIn(n) == nil {
			return false
		}
	}
	if c.given("vpcid") {
		p := arg[*vpc](c, "vpcid")
		if p == nil || !slices.ContainsFunc(v.nics, func(n *nic) bool { return n.network.vpc == p }) {
			return false
		}
	}
	return true
}

var hostName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]$|^[A-Za-z]$`)

func validHostName(s string) bool { return hostName.MatchString(s) }

// target returns the VM of a command and whether the caller may touch it.
func (c *call) targetVM() (*vm, error) {
	v := arg[*vm](c, "id")
	if v == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	if !c.access(v.owner) {
		return nil, denied()
	}
	if v.removed {
		return nil, invalid("Unable to find a virtual machine with id %s", v.uuid)
	}
	return v, nil
}

type vmAnswer struct {
	VM vmView `json:"virtualmachine"`
}

func updateVirtualMachine(c *call) (any, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	if n := c.str("name"); n != "" {
		if !validHostName(n) {
			return nil, invalid("Invalid name. Vm name can contain ASCII letters 'a' through 'z', the digits '0' through '9', " +
				"and the hyphen ('-'), must be between 1 and 63 characters long, and can't start or end with \"-\" and can't start with digit")
		}
		v.name = n
	}
	if c.has("displayname") {
		v.display = c.str("displayname")
	}
	if b := c.optBool("haenable"); b != nil {
		v.haEnabled = *b
	}
	if b := c.optBool("displayvm"); b != nil {
		v.hidden = !*b
	}
	if b := c.optBool("deleteprotection"); b != nil {
		v.protected = *b
	}
	if d := c.maps["details"]; d != nil {
		v.details = map[string]string{}
		for _, e := range d {
			for k, val := range e {
				v.details[k] = val
			}
		}
	}
	return vmAnswer{c.viewVM(v, nil)}, nil
}

// powerJob is a job on a VM; such jobs run one after the other.
func (c *call) powerJob(v *vm, run func(now time.Time) (any, error)) *jobSpec {
	spec := &jobSpec{instanceType: "VirtualMachine", instanceID: v.uuid, subject: v, run: run}
	if j := c.st.lastJobOn(v); j != nil {
		spec.after = j.due.Add(c.s.latency.job(c.api.Name))
	}
	return spec
}

func startVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	idle := c.st.lastJobOn(v) == nil
	if idle && v.state == vmStopped {
		v.state = vmStarting
	}
	return c.powerJob(v, func(now time.Time) (any, error) {
		switch v.state {
		case vmRunning:
			return nil, invalid("The virtual machine %s (%s) is already running", v.uuid, v.display)
		case vmStopped, vmStarting:
		default:
			return nil, errf(codeInternal, csRuntime, `Unable to orchestrate the start of VM instance {"instanceName":"%s","uuid":"%s"}.`, v.instanceName(), v.uuid)
		}
		v.state, v.updated, v.host = vmRunning, now, c.st.hostFor(v.zone, int(v.id))
		for _, n := range v.nics {
			c.st.implement(n.network, now)
		}
		return vmAnswer{c.viewVM(v, nil)}, nil
	}), nil
}

func stopVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	if c.st.lastJobOn(v) == nil && v.state == vmRunning {
		v.state = vmStopping
	}
	return c.powerJob(v, func(now time.Time) (any, error) {
		switch v.state {
		case vmRunning, vmStopping:
			v.state, v.updated, v.bootKnown = vmStopped, now, false
		case vmStopped:
		default:
			return nil, errf(codeInternal, csRuntime, "Failed to stop vm instance")
		}
		return vmAnswer{c.viewVM(v, nil)}, nil
	}), nil
}

func destroyVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	mayExpunge := !c.caller.account.normal() || c.st.settings.UserExpungeRecover
	if c.st.lastJobOn(v) == nil && v.state == vmRunning && (mayExpunge || !c.boolean("expunge")) && !v.protected && c.st.clusterOf(v) == nil {
		v.state = vmStopping
	}
	return c.powerJob(v, func(now time.Time) (any, error) {
		if c.boolean("expunge") && !mayExpunge {
			return nil, errf(codeInternal, csRuntime, "Account does not have permission for expunging.")
		}
		if v.protected {
			return nil, invalid("Instance [id = %s, name = %s] has delete protection enabled and cannot be deleted.", v.uuid, v.name)
		}
		if err := c.st.checkNodeDestroy(v); err != nil {
			return nil, err
		}
		if v.state != vmDestroyed && v.state != vmExpunging {
			v.state, v.updated = vmDestroyed, now
			v.host, v.bootKnown = nil, false
			c.st.leaveRules(v)
		}
		if c.boolean("expunge") {
			c.st.expunge(v)
			return success{true}, nil
		}
		return vmAnswer{c.viewVM(v, nil)}, nil
	}), nil
}

func recoverVirtualMachine(c *call) (any, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	if c.caller.account.normal() && !c.st.settings.UserExpungeRecover {
		return nil, errf(codeAccount, csPermission, "Recovering a vm can only be done by an Admin. Or when the allow.user.expunge.recover.vm key is set.")
	}
	if v.state != vmDestroyed {
		return nil, invalid("Vm with id %s is not in the right state", v.uuid)
	}
	v.state, v.updated = vmStopped, c.now
	return vmAnswer{c.viewVM(v, nil)}, nil
}

func expungeVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	return c.powerJob(v, func(time.Time) (any, error) {
		if c.caller.account.normal() && !c.st.settings.UserExpungeRecover {
			return nil, errf(codeInternal, csRuntime, "Expunging a vm can only be done by an Admin. Or when the allow.user.expunge.recover.vm key is set.")
		}
		c.st.expunge(v)
		return success{true}, nil
	}), nil
}

// leaveRules takes a VM out of all load balancer rules; they stay Active, as on the real server.
func (st *state) leaveRules(v *vm) {
	for _, r := range st.lbRules.rows {
		r.members = slices.DeleteFunc(r.members, func(m *lbMember) bool { return m.vm == v })
	}
}

// expunge ends a VM: its row stays, its addresses become free.
func (st *state) expunge(v *vm) {
	st.leaveRules(v)
	st.leaveForwards(v)
	v.removed, v.state, v.host = true, vmExpunging, nil
	for _, n := range v.nics {
		n.network.used = slices.DeleteFunc(n.network.used, func(o *nic) bool { return o == n })
	}
	v.tags = nil
}

// accountText is how exceptions print an account.
func accountText(a *account) string {
	return fmt.Sprintf(`Account [{"accountName":"%s","id":%d,"uuid":"%s"}]`, a.name, a.id, a.uuid)
}
