// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	run      = "csccm-cloud-a1b2c3"
	domain   = "d0000000-0000-4000-8000-000000000001"
	network  = "d0000000-0000-4000-8000-000000000002"
	address  = "d0000000-0000-4000-8000-000000000003"
	vm       = "d0000000-0000-4000-8000-000000000004"
	nic      = "d0000000-0000-4000-8000-000000000005"
	rule1    = "d0000000-0000-4000-8000-000000000006"
	foreign  = "f0000000-0000-4000-8000-000000000001"
	foreign2 = "f0000000-0000-4000-8000-000000000002"
)

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

// learned is a guard that has seen what a run makes.
func learned(t *testing.T) *Guard {
	t.Helper()
	g := NewGuard(run)
	for _, a := range [][2]string{
		{"createDomain", `{"createdomainresponse":{"domain":{"id":"` + domain + `","parentdomainid":"` + foreign + `","owner":{"id":"` + foreign + `"}}}}`},
		{"createNetwork", `{"createnetworkresponse":{"network":{"id":"` + network + `","domainid":"` + domain + `"}}}`},
		{"associateIpAddress", `{"associateipaddressresponse":{"id":"` + address + `","jobid":"x"}}`},
		{"deployVirtualMachine", `{"deployvirtualmachineresponse":{"id":"` + vm + `","jobid":"x"}}`},
		{"listVirtualMachines", `{"listvirtualmachinesresponse":{"count":2,"virtualmachine":[{"id":"` + vm + `","domainid":"` + domain + `","nic":[{"id":"` + nic + `","networkid":"` + network + `"}]},` +
			`{"id":"` + foreign2 + `","domainid":"` + foreign + `","nic":[{"id":"` + foreign + `","networkid":"` + foreign + `"}]}]}}`},
		{"listLoadBalancerRules", `{"listloadbalancerrulesresponse":{"count":1,"loadbalancerrule":[{"id":"` + rule1 + `","publicipid":"` + address + `"}]}}`},
	} {
		var answer any
		require.NoError(t, json.Unmarshal([]byte(a[1]), &answer))
		g.Learn(a[0], answer)
	}
	return g
}

// TestGuardRefusesForeignObjects tries what a mistake of the suite or of the product could send.
func TestGuardRefusesForeignObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command string
		params  url.Values
		refused string
	}{
		"a list":                             {"listVirtualMachines", values("id", foreign2), ""},
		"our VM":                             {"destroyVirtualMachine", values("id", vm, "expunge", "true"), ""},
		"a foreign VM":                       {"destroyVirtualMachine", values("id", foreign2, "expunge", "true"), foreign2},
		"a member of ours":                   {"assignToLoadBalancerRule", values("id", rule1, "virtualmachineids", vm), ""},
		"a foreign member among ours":        {"assignToLoadBalancerRule", values("id", rule1, "virtualmachineids", vm+","+foreign2), foreign2},
		"a foreign member by address":        {"assignToLoadBalancerRule", values("id", rule1, "vmidipmap[0].vmid", foreign2, "vmidipmap[0].vmip", "10.1.1.2"), foreign2},
		"a foreign rule":                     {"deleteLoadBalancerRule", values("id", foreign), foreign},
		"our network interface":              {"removeNicFromVirtualMachine", values("virtualmachineid", vm, "nicid", nic), ""},
		"a foreign network interface":        {"removeNicFromVirtualMachine", values("virtualmachineid", vm, "nicid", foreign), foreign},
		"an address for our network":         {"associateIpAddress", values("networkid", network, "customjobid", foreign), ""},
		"an address for a foreign network":   {"associateIpAddress", values("networkid", foreign), foreign},
		"an address for nothing of ours":     {"associateIpAddress", values("zoneid", foreign), "names no object"},
		"a domain of another run":            {"createDomain", values("name", "csccm-cloud-zzzzzz"), "does not start with"},
		"a domain of this run":               {"createDomain", values("name", run, "parentdomainid", foreign), ""},
		"a VM with the prefix, elsewhere":    {"deployVirtualMachine", values("name", run+"-vm", "networkids", foreign), foreign},
		"a foreign network by number":        {"deployVirtualMachine", values("name", run+"-vm", "networkids[0]", foreign), foreign},
		"a VM with the prefix":               {"deployVirtualMachine", values("name", run+"-vm", "networkids", network, "zoneid", foreign), ""},
		"an account in a foreign domain":     {"createAccount", values("account", run, "domainid", foreign), foreign},
		"keys of a foreign user":             {"registerUserKeys", values("id", foreign), foreign},
		"secret keys of a foreign user":      {"getUserKeys", values("id", foreign), foreign},
		"a get that makes a template":        {"getUploadParamsForTemplate", values("name", run), "no rule"},
		"tags of ours and others":            {"createTags", values("resourceids", address+","+foreign), foreign},
		"a command that the guard knows not": {"updateConfiguration", values("name", "expunge.delay", "value", "1"), "no rule"},
		"a network that others use":          {"restartNetwork", values("id", foreign), foreign},
		"deletion of the parent domain":      {"deleteDomain", values("id", foreign, "cleanup", "true"), foreign},
	} {
		g := learned(t)
		err := g.Judge(c.command, c.params)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want a refusal that names %s", name, err, c.refused)
		case c.refused != "" && len(g.Refused()) != 1:
			t.Errorf("%s: the refusal is not kept", name)
		}
	}
}

// TestGuardOfAPlainUser: without an account of its own the run makes objects with its prefix in the user's, and nothing else there is touched.
func TestGuardOfAPlainUser(t *testing.T) {
	t.Parallel()
	g := NewGuard(run)
	g.Home("k8s", foreign)
	require.NoError(t, g.Judge("createNetwork", values("name", run+"-net", "account", "k8s", "domainid", foreign)))
	if g.Judge("createNetwork", values("name", "other", "account", "k8s", "domainid", foreign)) == nil {
		t.Error("a name without the prefix passes")
	}
	if g.Judge("createNetwork", values("name", run+"-net", "account", "other", "domainid", foreign)) == nil {
		t.Error("another account passes")
	}
	// What is in the account already is not the run's.
	var list any
	require.NoError(t, json.Unmarshal([]byte(`{"x":{"network":[{"id":"`+foreign2+`","domainid":"`+foreign+`","account":"k8s"}]}}`), &list))
	g.Learn("listNetworks", list)
	if g.Judge("deleteNetwork", values("id", foreign2)) == nil {
		t.Error("a network that was there before may be deleted")
	}
}
