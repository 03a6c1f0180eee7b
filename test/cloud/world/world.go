// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world creates the objects that a run needs in CloudStack, and removes them. If the credentials allow it, the
// run gets its own domain and account.
package world

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"

	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/must"
)

// Prefix is the start of the names of all objects that any run creates.
const Prefix = "csccm-cloud-"

// runID matches a run id. No id is a prefix of another one.
var runID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// CheckRun returns an error if a text is not a run id.
func CheckRun(id string) error {
	if !runID.MatchString(id) {
		return fmt.Errorf("%q is no run id: six small letters and digits", id)
	}
	return nil
}

// NewRun returns the id of a new run.
func NewRun() string { return strings.ToLower(rand.Text()[:6]) }

// World is a run's part of CloudStack. The given credentials create the domain and its accounts. After that, the suite
// only uses keys of these accounts, which cannot reach anything outside the domain.
type World struct {
	Run  string
	Root bool            // a root administrator's credentials were given
	May  map[string]bool // the commands that the given credentials may call
	// User makes calls as the account that owns the networks and VMs, Admin as the domain's administrator.
	User, Admin Client
	Offers      Offers

	DomainID, DomainPath string
	Account              string
	// Keys are the keys of the account's user. AdminLogin is the login of the domain's administrator.
	Keys, AdminLogin Credentials

	o Options
}

// Options of a world.
type Options struct {
	Run   string
	URL   string // URL of the suite's proxy
	Who   Credentials
	Zone  string
	Guard *proxy.Guard
}

// PrefixOf returns the prefix of the names of a run's objects.
func PrefixOf(run string) string { return Prefix + run }

// Name returns a name for an object of this run.
func (w *World) Name(what string) string { return strings.TrimSuffix(PrefixOf(w.Run)+"-"+what, "-") }

// New checks what the cloud offers and creates the run's domain and account. It returns nil if it created nothing.
func New(ctx context.Context, o Options) (*World, error) {
	w := &World{Run: o.Run, May: map[string]bool{}, o: o}
	err := must.Catch(func() {
		c := Connect(ctx, o.URL, o.Who)
		defer func() { _ = c.Logout(context.WithoutCancel(ctx)) }()
		for _, a := range c.Ask(ctx, "listApis", nil).Objects("api") {
			w.May[a.Text("name")] = true
		}

		w.Offers = findOffers(ctx, c, o.Zone)
		w.Root = w.May["createDomain"] && w.May["createAccount"] && w.May["registerUserKeys"]
		if w.Root {
			w.makeAccounts(ctx, c)
			return
		}

		must.Be(o.Who.APIKey != "",
			"the login may make no domain: give a root administrator's login, or the API keys of a user")

		// The run uses the account of the user with the given keys.
		accounts := c.List(ctx, "listAccounts", "account", nil)
		must.Be(len(accounts) == 1, "the keys show %d accounts; give those of a plain user, or of a root administrator",
			len(accounts))
		w.Account = accounts[0].Text("name")
		w.DomainID = accounts[0].Text("domainid")
		w.DomainPath = accounts[0].Text("domainpath")
		w.Keys, w.User = o.Who, c
		o.Guard.Home(w.Account, w.DomainID)
	})
	if err != nil && !w.Root {
		return nil, err
	}

	return w, err
}

// makeAccounts creates a domain, an account with a user, and an administrator of the domain.
func (w *World) makeAccounts(ctx context.Context, root Client) {
	domain := root.Do(ctx, "createDomain", Params{"name": w.Name("")})
	w.DomainID, w.DomainPath = domain.Text("id"), cmp.Or(domain.Text("path"), "ROOT/"+w.Name(""))
	w.Account = w.Name("k8s")
	w.Keys = w.account(ctx, root, w.Account, Credentials{User: w.Name("owner"), Password: password()}, "User")
	w.User = Connect(ctx, w.o.URL, w.Keys)
	w.AdminLogin = Credentials{User: w.Name("dadmin"), Password: password(), Domain: w.DomainPath}
	w.Admin = Connect(ctx, w.o.URL, w.account(ctx, root, w.AdminLogin.User, w.AdminLogin, "Domain Admin"))
}

// account creates an account with a user and returns the user's keys.
func (w *World) account(ctx context.Context, root Client, name string, user Credentials, role string) Credentials {
	params := Params{
		"account":   name,
		"username":  user.User,
		"password":  user.Password,
		"firstname": "csccm",
		"lastname":  "cloud test",
		"email":     "nobody@example.com",
		"domainid":  w.DomainID,
	}

	if roles := root.List(ctx, "listRoles", "role", Params{"name": role}); len(roles) > 0 {
		params["roleid"] = roles[0].Text("id")
	} else {
		params["accounttype"] = map[string]string{"User": "0", "Domain Admin": "2"}[role]
	}

	users := root.Do(ctx, "createAccount", params).Objects("user")
	must.Be(len(users) > 0, "createAccount: the answer has no user")
	keys := root.Do(ctx, "registerUserKeys", Params{"id": users[0].Text("id")})
	return Credentials{APIKey: keys.Text("apikey"), SecretKey: keys.Text("secretkey")}
}

// password returns a random password.
func password() string { return rand.Text() + "-aA1!" }

// VM is a virtual machine of the run.
type VM struct{ ID, Name, Address string }

// New creates an object with a name of the run and returns its id.
func (w *World) New(ctx context.Context, command, what string, params Params) (id string) {
	params["name"], params["displaytext"] = w.Name(what), w.Name(what)
	return w.User.Do(ctx, command, params).Text("id")
}

// Network creates a network with an offering. more are the parameters of a tier, or the project.
func (w *World) Network(ctx context.Context, what, offering string, more Params) (id string) {
	more["zoneid"], more["networkofferingid"] = w.Offers.ZoneID, offering
	return w.New(ctx, "createNetwork", what, more)
}

// ACLList creates a network ACL list of a VPC.
func (w *World) ACLList(ctx context.Context, what, vpcID string) (id string) {
	return w.User.Do(ctx, "createNetworkACLList", Params{
		"name":        w.Name(what),
		"description": w.Name(what),
		"vpcid":       vpcID,
	}).Text("id")
}

// Tier creates the n-th tier of a VPC.
func (w *World) Tier(ctx context.Context, what, vpcID, aclID, offering string, n int) (id string) {
	return w.Network(ctx, what, offering,
		Params{"vpcid": vpcID, "aclid": aclID, "gateway": fmt.Sprintf("10.64.%d.1", n), "netmask": "255.255.255.0"})
}

// VMs creates virtual machines in a network, all at once.
func (w *World) VMs(ctx context.Context, projectID, network string, names ...string) []VM {
	vms := make([]VM, len(names))
	must.Each(len(names), func(i int) {
		name := w.Name(names[i])
		o := w.User.Do(ctx, "deployVirtualMachine", Params{
			"name":              name,
			"displayname":       name,
			"zoneid":            w.Offers.ZoneID,
			"serviceofferingid": w.Offers.ServiceOffering,
			"templateid":        w.Offers.Template,
			"networkids":        network,
		}.Set("projectid", projectID))
		vms[i] = VM{ID: o.Text("id"), Name: name}
		for _, nic := range o.Objects("nic") {
			if nic.Flag("isdefault") {
				vms[i].Address = nic.Text("ipaddress")
			}
		}
		must.Be(vms[i].Address != "", "VM %s has no address", name)
	})

	return vms
}
