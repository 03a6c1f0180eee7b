// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Guard checks every call to a cloud that others use, too. It allows a call that changes something only if this run
// created every object that the call names. When csccm has a root administrator's credentials, or the run uses a
// user's own account, nothing else confines csccm.
type Guard struct {
	prefix string

	mu      sync.Mutex
	mine    map[string]bool // ids of the run's objects
	refused []string
	// home is the account of a plain user, in which the run creates its objects because it cannot create an account.
	home struct{ account, domainID string }
}

// NewGuard returns the guard of a run whose objects have names with this prefix.
func NewGuard(prefix string) *Guard { return &Guard{prefix: prefix, mine: map[string]bool{}} }

// Home allows the run to create objects with its prefix in an account that it did not create.
func (g *Guard) Home(account, domainID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.home.account, g.home.domainID = account, domainID
}

// Adopt adds an object that an earlier process of this run created to the run's objects.
func (g *Guard) Adopt(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mine[id] = id != ""
}

// Refused returns the calls that were refused.
func (g *Guard) Refused() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.refused)
}

// Judge returns why a call must not be made, or nil.
func (g *Guard) Judge(command string, params url.Values) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.judge(command, params)
	if err != nil {
		g.refused = append(g.refused, err.Error())
	}
	return err
}

// reads reports whether a command changes nothing and shows no secret of the user that it names.
func reads(command string) bool {
	others := []string{"login", "logout", "queryAsyncJobResult", "getUser", "getApiLimit"}
	changing := []string{"listAndSwitchSamlAccount", "listUserKeys"}
	return slices.Contains(others, command) || strings.HasPrefix(command, "list") && !slices.Contains(changing, command)
}

// The commands that change something and that a run may send; all others are refused. Every parameter that names
// objects must name objects of the run.
var (
	// named are the commands that create an object with a name. The name must have the run's prefix. All other
	// commands must name an object of the run.
	named  = strings.Fields(`createDomain createAccount createProject createRole createNetwork createVPC deployVirtualMachine uploadSslCert`)
	others = strings.Fields(`associateIpAddress createFirewallRule createLoadBalancerRule assignToLoadBalancerRule removeFromLoadBalancerRule
		createLoadBalancer createPortForwardingRule createUser registerUserKeys getUserKeys updateUser deleteUser
		createRolePermission deleteRole addAccountToProject deleteDomain deleteAccount deleteProject updateResourceLimit
		deleteNetwork restartNetwork deleteVPC createNetworkACLList deleteNetworkACLList replaceNetworkACLList
		createNetworkACL deleteNetworkACL startVirtualMachine stopVirtualMachine destroyVirtualMachine
		expungeVirtualMachine addNicToVirtualMachine removeNicFromVirtualMachine disassociateIpAddress
		deleteFirewallRule updateLoadBalancerRule deleteLoadBalancerRule createLBStickinessPolicy
		deleteLBStickinessPolicy
		deleteLoadBalancer assignCertToLoadBalancer removeCertFromLoadBalancer deleteSslCert updatePortForwardingRule
		deletePortForwardingRule createTags deleteTags`)
	// free lists, by command, the parameters that may name objects of others: offerings for all users, or a default
	// ACL list. The parameters under "" name nothing that a call could change.
	free = map[string][]string{
		"": {"zoneid", "serviceofferingid", "templateid", "networkofferingid", "vpcofferingid",
			"jobid", "customjobid"},
		"createDomain":          {"parentdomainid"},
		"createAccount":         {"roleid"},
		"createNetwork":         {"aclid", "physicalnetworkid"},
		"replaceNetworkACLList": {"aclid"},
	}
	// reference is the last part of a parameter that names objects by their ids, such as iptonetworklist[0].networkid.
	reference = regexp.MustCompile(`(^|\.)([^.]*ids?|vm)(\[\d+\])*$`)
)

func (g *Guard) judge(command string, params url.Values) error {
	if reads(command) {
		return nil
	}

	makesNamed := slices.Contains(named, command)
	if !makesNamed && !slices.Contains(others, command) {
		return fmt.Errorf("%s: the guard has no rule for this command, and so refuses it", command)
	}

	owned := false
	for name, values := range params {
		match := reference.FindStringSubmatch(strings.ToLower(name))
		if match == nil || slices.Contains(free[command], match[2]) || slices.Contains(free[""], match[2]) {
			continue
		}
		for id := range strings.SplitSeq(strings.Join(values, ","), ",") {
			switch {
			case id == "":
			case g.mine[id]:
				owned = true
			case makesNamed &&
				match[2] == "domainid" &&
				id == g.home.domainID &&
				params.Get("account") == g.home.account:
			default:
				return fmt.Errorf("%s: %s=%s was not made by run %s", command, name, id, g.prefix)
			}
		}
	}

	if name := cmp.Or(params.Get("name"), params.Get("account")); makesNamed && !strings.HasPrefix(name, g.prefix) {
		return fmt.Errorf("%s: name %q does not start with %s", command, name, g.prefix)
	}

	if !makesNamed && !owned {
		return fmt.Errorf("%s names no object of run %s", command, g.prefix)
	}

	return nil
}

// owners are the fields of an object in an answer that name its container. An object in a container of the run belongs
// to the run.
var owners = []string{
	"domainid", "projectid", "parentdomainid", "networkid", "associatednetworkid", "vpcid", "publicipid",
	"publicipaddressid", "ipaddressid", "virtualmachineid", "accountid", "aclid", "sourceipaddressnetworkid",
}

// Learn adds the run's objects in an answer: the object that the call created, and objects in a container of the run.
func (g *Guard) Learn(command string, answer any) {
	known := slices.Contains(named, command) || slices.Contains(others, command)
	made := known &&
		(strings.HasPrefix(command, "create") ||
			slices.Contains([]string{"associateIpAddress", "deployVirtualMachine", "uploadSslCert"}, command))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learn(answer, made)
}

// learn adds the objects in a part of an answer. made means that the call created the outermost object with an id.
func (g *Guard) learn(part any, made bool) {
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			g.learn(item, false)
		}
	case map[string]any:
		text := func(key string) string { s, _ := part[key].(string); return s }
		id := text("id")
		if id != "" && (made || slices.ContainsFunc(owners, func(key string) bool { return g.mine[text(key)] })) {
			g.mine[id] = true
		}
		for _, member := range part {
			g.learn(member, made && id == "")
		}
	}
}
