// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// TestValuesOfParameters: empty, malformed and odd values, by the type of the parameter and whether it is required or has a since mark.
func TestValuesOfParameters(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const empty, text = "Invalid value provided for API arg: ", " due to invalid value "
	one, own := h.vmID("own-1"), h.netID("own")
	for name, tc := range map[string]struct {
		command string
		pairs   []string
		code    int // 0: a list of that many
		cs      int
		text    string
	}{
		"empty required id":            {"queryAsyncJobResult", []string{"jobid", ""}, 431, wire.CSInvalidValue, empty + "jobid"},
		"empty required list":          {"createTags", []string{"resourceids", "", "resourcetype", "UserVm", "tags[0].key", "k", "tags[0].value", "v"}, 431, wire.CSInvalidValue, empty + "resourceids"},
		"empty required map":           {"createTags", []string{"resourceids", one, "resourcetype", "UserVm", "tags", ""}, 431, wire.CSInvalidValue, empty + "tags"},
		"empty required number":        {"createLoadBalancerRule", []string{"name", "n", "algorithm", "source", "publicport", "1", "privateport", ""}, 431, wire.CSInvalidValue, empty + "privateport"},
		"the first one counts":         {"createFirewallRule", []string{"ipaddressid", ""}, 431, wire.CSInvalidValue, empty + "ipaddressid"},
		"missing before empty":         {"createTags", []string{"resourceids", ""}, 431, wire.CSGeneric, "due to missing parameter tags"},
		"empty id":                     {"listVirtualMachines", []string{"id", ""}, 431, wire.CSGeneric, "Invalid parameter id value= due"},
		"id in capitals":               {"listVirtualMachines", []string{"id", strings.ToUpper(one)}, 0, 1, ""},
		"number nil":                   {"listVirtualMachines", []string{"id", "0"}, 431, wire.CSGeneric, "due to invalid value. " + empty + "id"},
		"negative number":              {"listVirtualMachines", []string{"networkid", "-7"}, 431, wire.CSGeneric, "due to invalid value. " + empty + "networkid"},
		"minus one":                    {"listVirtualMachines", []string{"serviceofferingid", "-1"}, 0, 0, ""},
		"number for a newer id":        {"listVirtualMachines", []string{"serviceofferingid", "1"}, 0, 4, ""},
		"malformed newer id":           {"listVirtualMachines", []string{"serviceofferingid", "nope"}, 0, 4, ""},
		"empty newer id":               {"listVirtualMachines", []string{"serviceofferingid", ""}, 0, 4, ""},
		"unknown newer id":             {"listVirtualMachines", []string{"serviceofferingid", nowhere}, 431, wire.CSGeneric, "Invalid parameter serviceofferingid value=" + nowhere},
		"malformed older id":           {"listVirtualMachines", []string{"templateid", "nope"}, 431, wire.CSGeneric, "Invalid parameter templateid value=nope"},
		"malformed ids":                {"listVirtualMachines", []string{"ids", "nope"}, 0, 0, ""},
		"malformed and good ids":       {"listVirtualMachines", []string{"ids", "nope," + one}, 0, 1, ""},
		"no ids":                       {"listVirtualMachines", []string{"ids", "", "id", one}, 0, 1, ""},
		"malformed ids of zones":       {"listZones", []string{"ids", "nope"}, 0, 0, ""},
		"malformed network":            {"listFirewallRules", []string{"networkid", "nope"}, 0, 0, ""},
		"a blank is part of an id":     {"listVirtualMachines", []string{"ids", one + ", " + one}, 0, 1, ""},
		"a blank is part of a member":  {"assignToLoadBalancerRule", []string{"id", h.rule("80", "protocol", "tcp"), "virtualmachineids", one + ", " + one}, 431, wire.CSGeneric, "Invalid parameter virtualmachineids value= " + one},
		"a blank is part of a CIDR":    {"createFirewallRule", []string{"ipaddressid", h.ipID("203.0.113.8"), "protocol", "tcp", "cidrlist", "10.0.0.0/8, 192.0.2.0/24"}, 431, wire.CSGeneric, "Source CIDRs formatting error  192.0.2.0/24"},
		"a blank is part of a detail":  {"listVirtualMachines", []string{"details", "min, nics"}, 431, wire.CSInvalidValue, "The details parameter contains a non permitted value"},
		"a tag without a value":        {"listVirtualMachines", []string{"tags[0].key", "k"}, 431, wire.CSInvalidValue, "No value is passed in for key k"},
		"a tag without anything":       {"listNetworks", []string{"tags[0].x", "k"}, 431, wire.CSInvalidValue, "No value is passed in for key null"},
		"tags after the pages":         {"listVirtualMachines", []string{"tags[0].key", "k", "page", "1"}, 431, wire.CSGeneric, `"pagesize" parameter is required`},
		"an empty value of a tag":      {"listVirtualMachines", []string{"tags[0].key", "k", "tags[0].value", ""}, 0, 0, ""},
		"tags of a type that is none":  {"listTags", []string{"resourcetype", "bogus"}, 0, 0, ""},
		"tags of no resource":          {"listTags", []string{"resourceid", ""}, 0, 0, ""},
		"a text for a map":             {"listVirtualMachines", []string{"tags", "k"}, 431, wire.CSGeneric, text + "k for parameter tags"},
		"nothing for a map":            {"listVirtualMachines", []string{"tags", ""}, 431, wire.CSGeneric, text + " for parameter tags"},
		"a blank beside a number":      {"listVirtualMachines", []string{"page", " 1", "pagesize", "5"}, 431, wire.CSGeneric, text + " 1 for parameter page"},
		"a blank number":               {"listVirtualMachines", []string{"page", " ", "pagesize", "-1"}, 0, 4, ""},
		"a tab":                        {"listVirtualMachines", []string{"keyword", "a\tb"}, 431, wire.CSGeneric, "illegal ASCII non-printable characters for parameter keyword"},
		"a new line":                   {"listVirtualMachines", []string{"keyword", "a\r\nb"}, 0, 0, ""},
		"an unknown network is first":  {"listVirtualMachines", []string{"networkid", nowhere, "page", "1"}, 431, wire.CSGeneric, "Invalid parameter networkid value=" + nowhere},
		"no name is a name":            {"listVirtualMachines", []string{"name", ""}, 0, 0, ""},
		"no state is a state":          {"listVirtualMachines", []string{"state", "", "networkid", own}, 0, 0, ""},
		"no keyword is in all of them": {"listVirtualMachines", []string{"keyword", ""}, 0, 4, ""},
		"a hypervisor that is none":    {"listVirtualMachines", []string{"hypervisor", "bogus"}, 431, wire.CSInvalidValue, "Invalid HypervisorType bogus"},
		"another hypervisor":           {"listVirtualMachines", []string{"hypervisor", "kvm"}, 0, 0, ""},
	} {
		t.Log(name)
		a := h.call("d/a", tc.command, tc.pairs...)
		if tc.code != 0 {
			h.fails(a, tc.code, tc.cs, tc.text)
			continue
		}
		n, _ := h.ok(a).body["count"].(float64)
		require.Equal(t, tc.cs, int(n), a.raw)
	}
}

// TestKeywordOfMachines: admins find VMs by the hypervisor's name too, everybody by the address of a static NAT.
func TestKeywordOfMachines(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	instance := h.first(h.call("root", "listVirtualMachines", "id", h.vmID("own-1")), "virtualmachine")["instancename"].(string)
	require.Len(t, h.call("root", "listVirtualMachines", "listall", "true", "keyword", instance).items("virtualmachine"), 1)
	require.Empty(t, h.call("d/a", "listVirtualMachines", "keyword", instance).body)
	h.ok(h.call("d/a", "enableStaticNat", "ipaddressid", h.ipID("203.0.113.8"), "virtualmachineid", h.vmID("own-1")))
	require.Equal(t, "own-1", h.first(h.call("d/a", "listVirtualMachines", "keyword", "203.0.113.8"), "virtualmachine")["name"])
}

// TestProjectOfACall: the project that a call is about, and so who is refused, is read from the parameters as they were sent.
func TestProjectOfACall(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	p := h.first(h.call("d/a", "listProjects"), "project")["id"].(string)
	stranger := func(command string) string {
		return "The API [" + command + "] does not exist or is not available for this account/user in project [" + p
	}
	for _, command := range []string{"suspendProject", "updateProject", "activateProject", "deleteProject"} {
		a := h.call("d/b", command, "id", p)
		h.fails(a, 432, wire.CSGeneric, stranger(command))
		require.Equal(t, "errorresponse", a.key)
	}
	h.fails(h.call("d/b", "listVirtualMachines", "projectid", p), 432, wire.CSGeneric, stranger("listVirtualMachines"))
	h.fails(h.call("d/b", "listVirtualMachines", "projectid", strings.ToUpper(p)), 432, wire.CSGeneric, stranger("listVirtualMachines"))
	h.fails(h.call("d/b", "listVirtualMachines", "projectId", p), 531, wire.CSPermission, "can't access project id=")
	require.Len(t, h.ok(h.call("d/a", "listVirtualMachines", "projectId", p)).items("virtualmachine"), 1)
	h.ok(h.call("d/b", "listVirtualMachines", "projectid", "-1"))
	h.done("d/da", h.call("d/da", "suspendProject", "id", p))
	h.done("d/a", h.call("d/a", "activateProject", "id", p))
}

// TestTagsOfAProject: they are found without projectid, by whoever may see the project.
func TestTagsOfAProject(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	p := h.first(h.call("d/a", "listProjects"), "project")["id"].(string)
	tags := []string{"resourceids", p, "resourcetype", "Project", "tags[0].key", "k"}
	h.broken("d/a", h.call("d/a", "createTags", tags...), 431, "No value is passed in for key k")
	h.done("d/a", h.call("d/a", "createTags", append(tags, "tags[0].value", "v")...))
	require.Equal(t, "v", h.first(h.call("d/a", "listTags", "resourcetype", "project", "resourceid", p), "tag")["value"])
	require.Empty(t, h.ok(h.call("d/a", "listTags", "resourceid", p)).body)
	h.fails(h.call("d/b", "listTags", "resourcetype", "Project", "resourceid", p), 531, wire.CSPermission, "can't access project id=")
}

// TestKeywordOfUsers: a keyword is looked for in the names of user and account, in the state, and is the name of an account type.
func TestKeywordOfUsers(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	for keyword, want := range map[string]int{"da": 1, "enab": 3, "domain_admin": 1, "DOMAIN": 0, "normal": 2, "none": 0} {
		require.Len(t, h.call("d/da", "listUsers", "listall", "true", "keyword", keyword).items("user"), want, keyword)
	}
	for username, want := range map[string]int{"DA": 1, "d%": 1, "_": 2, "d": 0} {
		require.Len(t, h.call("d/da", "listUsers", "listall", "true", "username", username).items("user"), want, username)
	}
}
