// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world makes what a run needs in a CloudStack, in a domain and an account of its own where the credentials allow
// it, and removes it again.
package world

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"regexp"
	"time"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/guard"
	"github.com/csccm/csccm/test/internal/must"
)

// Prefix starts the names of everything that any run makes.
const Prefix = "csccm-cloud-"

// runID is what a run id looks like: names that start with one never start with another.
var runID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// CheckRun returns why a text is not a run id, or nil.
func CheckRun(id string) error {
	if !runID.MatchString(id) {
		return fmt.Errorf("%q is no run id: six small letters and digits", id)
	}
	return nil
}

// NewRun returns the id of a new run.
func NewRun() string {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789"
	id := make([]byte, 6)
	for i := range id {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			panic(err) // crypto/rand never fails
		}
		id[i] = letters[n.Int64()]
	}
	return string(id)
}

// World is what a run has in CloudStack.
type World struct {
	Run string
	// URL is where the suite reaches the API, through its proxy.
	URL string
	// Admin calls with the credentials that were given; User as the account that owns the networks and VMs.
	Admin, User *api.Client
	Offers      Offers
	Can         Can

	DomainID, DomainPath string
	Account              string
	// Keys are those of the account's user; DomainAdmin is the login of the domain's administrator.
	Keys, DomainAdmin api.Credentials

	guard *guard.Guard
}

// Can is what the credentials allow.
type Can struct {
	// Admin makes domains and accounts.
	Admin bool
	// Deploy makes VMs. Expunge removes them at once.
	Deploy, Expunge bool
	Projects        bool
	Certificates    bool
}

// Options of a world.
type Options struct {
	Run   string
	URL   string
	Who   api.Credentials
	Zone  string
	Guard *guard.Guard
}

// PrefixOf starts the names of what a run makes.
func PrefixOf(run string) string { return Prefix + run }

// Name is a name of something that this run makes.
func (w *World) Name(what string) string {
	if what == "" {
		return PrefixOf(w.Run)
	}
	return PrefixOf(w.Run) + "-" + what
}

// New looks at what the cloud offers and makes the run's domain and account.
func New(ctx context.Context, o Options) (*World, error) {
	w := &World{Run: o.Run, URL: o.URL, Admin: api.New(o.URL, o.Who), guard: o.Guard}
	err := must.Catch(func() {
		w.look(ctx, o.Zone)
		switch {
		case w.Can.Admin:
			w.makeAccount(ctx)
		case o.Who.APIKey == "":
			must.Fail("the login may make no domain: give a root administrator's login, or the API keys of a user")
		default:
			w.ownAccount(ctx, o.Who)
		}
	})
	if err != nil && !w.Can.Admin {
		return nil, err // nothing was made
	}
	return w, err
}

// look learns what the credentials allow and what the cloud offers.
func (w *World) look(ctx context.Context, zone string) {
	apis, err := w.Admin.Call(ctx, "listApis", nil)
	if err != nil {
		must.Fail("the credentials do not work: %w", err)
	}
	may := map[string]bool{}
	for _, a := range apis.Objects("api") {
		may[a.Text("name")] = true
	}
	w.Can = Can{
		Admin:        may["createDomain"] && may["createAccount"] && may["registerUserKeys"],
		Deploy:       may["deployVirtualMachine"] && may["createNetwork"],
		Projects:     may["createProject"],
		Certificates: may["uploadSslCert"],
	}
	w.Can.Expunge = w.Can.Admin
	w.Offers = findOffers(ctx, w.Admin, zone)
}

// makeAccount makes a domain, an account with a user, and an administrator of the domain.
func (w *World) makeAccount(ctx context.Context) {
	domain := must.Get(w.Make(ctx, w.Admin, "domain", "createDomain", api.Params{"name": w.Name("")}))
	w.DomainID, w.DomainPath = domain.Text("id"), cmp.Or(domain.Text("path"), "ROOT/"+w.Name(""))
	w.Account = w.Name("k8s")
	user := w.account(ctx, w.Account, w.Name("owner"), password(), "User", "0")
	keys := must.Get(w.Admin.Do(ctx, "registerUserKeys", api.Params{"id": user}))
	w.Keys = api.Credentials{APIKey: keys.Text("apikey"), SecretKey: keys.Text("secretkey")}
	w.User = api.New(w.URL, w.Keys)
	w.DomainAdmin = api.Credentials{User: w.Name("dadmin"), Password: password(), Domain: w.DomainPath}
	w.account(ctx, w.DomainAdmin.User, w.DomainAdmin.User, w.DomainAdmin.Password, "Domain Admin", "2")
}

// account makes an account with a user and returns the user's id.
func (w *World) account(ctx context.Context, name, user, secret, role, kind string) string {
	params := api.Params{
		"account": name, "username": user, "password": secret, "firstname": "csccm", "lastname": "cloud test", "email": "nobody@example.com",
		"domainid": w.DomainID, "accounttype": kind,
	}
	if roles := must.Get(w.Admin.List(ctx, "listRoles", "role", api.Params{"name": role})); len(roles) > 0 {
		params["roleid"] = roles[0].Text("id")
		delete(params, "accounttype")
	}
	users := must.Get(w.Make(ctx, w.Admin, "account", "createAccount", params)).Objects("user")
	must.Be(len(users) > 0, "createAccount: the answer has no user")
	return users[0].Text("id")
}

// ownAccount works in the account of the user whose keys were given.
func (w *World) ownAccount(ctx context.Context, who api.Credentials) {
	accounts := must.Get(w.Admin.List(ctx, "listAccounts", "account", nil))
	must.Be(len(accounts) == 1, "the keys show %d accounts; give those of a plain user, or of a root administrator", len(accounts))
	w.Account, w.DomainID, w.DomainPath = accounts[0].Text("name"), accounts[0].Text("domainid"), accounts[0].Text("domainpath")
	w.Keys, w.User = who, w.Admin
	w.guard.Home(w.Account, w.DomainID)
}

// Make makes an object of a name.
func (w *World) Make(ctx context.Context, c *api.Client, kind, command string, params api.Params) (api.Object, error) {
	o, err := c.Do(ctx, command, params)
	if err != nil {
		err = fmt.Errorf("make the %s %s: %w", kind, cmp.Or(params["name"], params["account"]), err)
	}
	return o, err
}

// password is one that nobody knows.
func password() string { return rand.Text() + "-aA1!" }

// cleanLimit is for what a run has made to go.
const cleanLimit = 10 * time.Minute
