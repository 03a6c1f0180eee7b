// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Request says for what the keys are to be made.
type Request struct {
	Domain        string   // path (ROOT, ROOT/a/b, /a/b) or id of the account's domain; "" = the administrator's own
	Account       string   // owner of the cluster's VMs; with Project the member account ("" = a new one)
	CreateAccount bool     // with Project: make the account when there is none
	Project       string   // name or id of the project that owns the cluster's VMs
	User          string   // user name; "" = kubeadmin, or ACCOUNT-kubeadmin where that is taken
	Role          string   // name of the minimal role for a new account; "" = csccm-kubeadm
	Commands      []string // API commands that the controller calls

	// InUse is the key pair in the cluster's Secret: its user is the controller's. Former are the users that
	// rotate-keys replaced by that one. Naming one of them does not go back to it.
	InUse  Keys
	Former []string

	// Sees reports whether the user of the keys sees the project; nil = unknown.
	Sees func(ctx context.Context, keys Keys, projectID string) (bool, error)
}

// Provision is the plan from the request to API keys. Steps describes it in words; an empty Steps means that keys exist already.
type Provision struct {
	Steps []string

	Domain  cloudapi.Domain
	Account string
	User    string
	Project cloudstack.Project // zero without a project

	r       Request
	admin   *cloudapi.Client
	domains []cloudapi.Domain
	users   []cloudapi.User // of the domain

	actions  []action
	made     []*MadeObject // what the actions make, with the ids of what they have made
	register bool
	keys     Keys
}

// action is one change in CloudStack. what is what it makes.
type action struct {
	what string
	do   func(ctx context.Context) error
}

// add plans an action, which step describes.
func (p *Provision) add(step, what string, do func(ctx context.Context) error) {
	p.Steps, p.actions = append(p.Steps, step), append(p.actions, action{what, do})
}

// makes lists an object that an action makes.
func (p *Provision) makes(kind MadeKind, name string) *MadeObject {
	o := &MadeObject{Kind: kind, Name: name}
	if kind != MadeRole {
		o.DomainID, o.Domain = p.Domain.ID, p.Domain.Path
	}
	if kind == MadeUser || kind == MadeKeys {
		o.Account = p.Account
	}
	p.made = append(p.made, o)
	return o
}

// Makes returns what Apply makes in CloudStack, with the ids of what it has made.
func (p *Provision) Makes() (out []MadeObject) {
	for _, o := range p.made {
		out = append(out, *o)
	}
	return out
}

// Changes reports whether Apply changes anything in CloudStack.
func (p *Provision) Changes() bool { return len(p.Steps) > 0 }

// NewKeys reports whether Apply registers keys, which no Secret holds yet.
func (p *Provision) NewKeys() bool { return p.register }

// Apply makes what the plan lists and returns the keys. Run again after a failure, a new plan holds what is left.
func (p *Provision) Apply(ctx context.Context, done func(what string)) (Keys, error) {
	for _, a := range p.actions {
		if err := a.do(ctx); err != nil {
			return Keys{}, explain("making "+a.what, err)
		}
		done(a.what)
	}
	return p.keys, nil
}

// Plan reads what exists and says what is missing. It changes nothing.
func Plan(ctx context.Context, admin *cloudapi.Client, r Request) (*Provision, error) {
	p := &Provision{Account: r.Account, User: r.User, r: r, admin: admin}
	if err := p.place(ctx); err != nil {
		return nil, err
	}
	accounts, err := admin.ListAccounts(ctx, p.Account, "")
	if err != nil {
		return nil, explain(fmt.Sprintf("looking for account %q", p.Account), err)
	}
	if p.users, err = admin.ListUsers(ctx, "", "", p.Domain.ID); err != nil {
		return nil, explain("listing the users of domain "+p.Domain.Path, err)
	}
	accounts = slices.DeleteFunc(accounts, func(a cloudapi.Account) bool { return a.Name != p.Account })
	switch {
	case slices.ContainsFunc(accounts, func(a cloudapi.Account) bool { return a.DomainID == p.Domain.ID }):
		err = p.planUser(ctx)
	case p.r.CreateAccount && r.Project != "":
		err = p.planAccount(ctx)
	default:
		err = p.noAccount(accounts)
	}
	if err == nil {
		err = p.planMembership(ctx)
	}
	return p, err
}

// place finds domain and project, and names the account.
func (p *Provision) place(ctx context.Context) (err error) {
	if p.domains, err = p.admin.ListDomains(ctx); err != nil {
		return explain("listing domains", err)
	}
	if p.Domain, err = pickDomain(p.domains, p.r.Domain); err != nil {
		return err
	}
	if p.r.Project != "" {
		if err := p.findProject(ctx); err != nil {
			return err
		}
		if p.Account == "" {
			// One account per project, named so that a second run finds it.
			p.Account, p.r.CreateAccount = "csccm-"+strings.SplitN(p.Project.ID, "-", 2)[0], true
		}
	}
	if p.Account == "" {
		return report.Usage("no account is named for the controller's user",
			"name the account that owns the cluster's VMs with --account, or the project with --project")
	}
	return nil
}

// pickDomain resolves a path or id. Without one it returns the administrator's own domain: they see that and those below it.
func pickDomain(domains []cloudapi.Domain, want string) (cloudapi.Domain, error) {
	known := make([]string, len(domains))
	top, at := -1, -1
	for i := range domains {
		d := &domains[i]
		d.Path = normalPath(d.Path)
		known[i] = d.Path
		if top < 0 || strings.Count(d.Path, "/") < strings.Count(domains[top].Path, "/") {
			top = i
		}
		if want != "" && (d.ID == want || strings.EqualFold(d.Path, normalPath(want))) {
			at = i
		}
	}
	if want == "" {
		at = top
	}
	if at < 0 {
		return cloudapi.Domain{}, report.Usage(fmt.Sprintf("there is no domain %q that this administrator can see", want), "name one of these with --domain: "+some(known))
	}
	return domains[at], nil
}

// normalPath writes a domain's path as listDomains does: ROOT/a/b.
func normalPath(path string) string { return DefaultDomain + cloudapi.BelowRoot(path) }

// findProject finds the project, and with it the domain of the account: CloudStack looks for a member by its name in the
// project's own domain and nowhere else.
func (p *Provision) findProject(ctx context.Context) error {
	projects, err := p.admin.ListProjects(ctx)
	if err != nil {
		return explain("listing projects", err)
	}
	var known []string
	var found []cloudstack.Project
	for _, o := range projects {
		if p.r.Domain != "" && o.DomainID != "" && o.DomainID != p.Domain.ID { // otherwise any
			continue
		}
		known = append(known, o.Name)
		if strings.EqualFold(o.ID, p.r.Project) || o.Name == p.r.Project {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		return report.Usage(fmt.Sprintf("there is no project %q that these credentials can see, or more than one", p.r.Project),
			"name its id, or one of these, with --project, and its domain with --domain: "+some(known))
	}
	if p.Project = found[0]; p.Project.DomainID == "" {
		return nil
	}
	i := slices.IndexFunc(p.domains, func(d cloudapi.Domain) bool { return d.ID == p.Project.DomainID })
	if i < 0 {
		return report.Usage(fmt.Sprintf("project %q is of a domain that this administrator does not see, and its members must be of the same domain", p.Project.Name),
			"log in as an administrator of that domain")
	}
	p.Domain = p.domains[i]
	return nil
}

// some lists names for a remedy, the first ten of them.
func some(names []string) string {
	slices.Sort(names)
	if len(names) > 10 {
		names = append(slices.Clone(names[:10]), "...")
	}
	return cmp.Or(strings.Join(names, ", "), "(none)")
}

// noAccount is the error for an account that does not exist and is not made. There may be others of its name.
func (p *Provision) noAccount(others []cloudapi.Account) error {
	e := report.Usage(fmt.Sprintf("there is no account %q in domain %s", p.Account, p.Domain.Path),
		"name the account that owns the cluster's VMs (--account, --domain), or their project with --project; "+
			"with --create-account a project gets a member of that name")
	for _, d := range p.domains {
		if p.r.Project == "" && slices.ContainsFunc(others, func(a cloudapi.Account) bool { return a.DomainID == d.ID }) {
			e.Fix = fmt.Sprintf("there is one in %s: --domain %s", d.Path, d.Path)
		}
	}
	return e
}

// planAccount plans an account that does not exist: minimal role, account with its first user, keys.
func (p *Provision) planAccount(ctx context.Context) error {
	p.freeUserName()
	name := cmp.Or(p.r.Role, DefaultRole)
	role, err := p.planRole(ctx, name)
	if err != nil {
		return err
	}
	account, user := p.makes(MadeAccount, p.Account), p.makes(MadeUser, p.User)
	p.add(fmt.Sprintf("create account %q with role %q and user %q in domain %s", p.Account, name, p.User, p.Domain.Path),
		fmt.Sprintf("account %q with user %q", p.Account, p.User), func(ctx context.Context) error {
			first := NewUser(p.Account, p.User, p.Domain.ID)
			first.RoleID = role.ID
			made, err := p.admin.CreateAccount(ctx, first)
			if err != nil {
				return err
			}
			account.ID = made.ID
			i := slices.IndexFunc(made.Users, func(u cloudapi.User) bool { return u.Username == p.User })
			if i < 0 {
				return &Error{What: fmt.Sprintf("CloudStack made account %q without user %q", p.Account, p.User), Fix: "run the command again"}
			}
			user.ID = made.Users[i].ID
			return nil
		})
	p.addKeys(user, nil)
	return nil
}

// addKeys plans new keys for a user. made, if not nil, gets the id of the user when they are made.
func (p *Provision) addKeys(user, made *MadeObject) {
	p.register = true
	p.add(fmt.Sprintf("register API keys for user %q", p.User), fmt.Sprintf("API keys of user %q", p.User), func(ctx context.Context) error {
		keys, err := p.admin.RegisterUserKeys(ctx, user.ID)
		if err != nil {
			return err
		}
		p.keys = *keys
		if made != nil {
			made.ID = user.ID
		}
		return nil
	})
}

// planUser plans for an account that exists.
func (p *Provision) planUser(ctx context.Context) error {
	wanted := []string{p.User}
	if p.User == "" {
		wanted = []string{DefaultUser, p.Account + "-" + DefaultUser} // CloudStack's own Kubernetes service makes the second
	}
	known := p.holder()
	for i := 0; known < 0 && i < len(wanted); i++ {
		known = slices.IndexFunc(p.users, func(u cloudapi.User) bool { return u.Username == wanted[i] && u.Account == p.Account })
	}
	if known >= 0 {
		p.User = p.users[known].Username
		return p.planKeys(ctx, &p.users[known])
	}
	p.freeUserName()
	user := p.makes(MadeUser, p.User)
	p.add(fmt.Sprintf("create user %q in account %q of domain %s", p.User, p.Account, p.Domain.Path), fmt.Sprintf("user %q", p.User),
		func(ctx context.Context) error {
			made, err := p.admin.CreateUser(ctx, NewUser(p.Account, p.User, p.Domain.ID))
			if err == nil {
				user.ID = made.ID
			}
			return err
		})
	p.addKeys(user, nil)
	return nil
}

// holder returns the index of the account's user whose keys the cluster's Secret holds; -1 when there is none or another
// user is wanted.
func (p *Provision) holder() int {
	i := slices.IndexFunc(p.users, func(u cloudapi.User) bool {
		return u.Account == p.Account && u.APIKey != "" && u.APIKey == p.r.InUse.APIKey
	})
	if i >= 0 && p.User != "" && p.User != p.users[i].Username && !slices.Contains(p.r.Former, p.User) {
		return -1
	}
	return i
}

// freeUserName chooses the name of a user where none is given: kubeadmin, or ACCOUNT-kubeadmin where another account of the
// domain has that one. User names are unique in a domain.
func (p *Provision) freeUserName() {
	switch {
	case p.User != "":
	case slices.ContainsFunc(p.users, func(u cloudapi.User) bool { return u.Username == DefaultUser }):
		p.User = p.Account + "-" + DefaultUser
	default:
		p.User = DefaultUser
	}
}

// planKeys re-uses the keys of an existing user. Registering again would revoke the old pair at once for whoever works with it,
// so it is done only for a user that has none.
func (p *Provision) planKeys(ctx context.Context, user *cloudapi.User) error {
	if user.State != "" && !strings.EqualFold(user.State, "enabled") {
		return report.Remedied(fmt.Errorf("user %q of account %q is %s", user.Username, user.Account, strings.ToLower(user.State)),
			"enable the user, or choose another with --user")
	}
	keys, err := p.admin.GetUserKeys(ctx, user.ID)
	switch {
	case err != nil:
		return explain(fmt.Sprintf("reading the keys of user %q", user.Username), err)
	case keys.APIKey != "" && keys.SecretKey != "":
		p.keys = *keys
	case user.APIKey != "" && user.APIKey == p.r.InUse.APIKey:
		p.keys = p.r.InUse // a new pair would end the controller's
	default:
		p.addKeys(&MadeObject{ID: user.ID}, p.makes(MadeKeys, p.User))
	}
	return nil
}

// planMembership adds an account to the project. Administrators have no call in our list that tells the members, so the user's
// own keys are asked; without keys the call is planned, which CloudStack answers with success for a member.
func (p *Provision) planMembership(ctx context.Context) error {
	if p.Project.ID == "" {
		return nil
	}
	if p.keys.APIKey != "" && p.r.Sees != nil {
		member, err := p.r.Sees(ctx, p.keys, p.Project.ID)
		if err != nil {
			return explain(fmt.Sprintf("asking with the keys of user %q whether it is in project %q", p.User, p.Project.Name), err)
		}
		if member {
			return nil
		}
	}
	p.add(fmt.Sprintf("add account %q to project %q", p.Account, p.Project.Name), fmt.Sprintf("account %q a member of project %q", p.Account, p.Project.Name),
		func(ctx context.Context) error { return p.admin.AddAccountToProject(ctx, p.Project.ID, p.Account) })
	return nil
}

// NewUser is the request for a user of the controller, who only ever works by keys.
func NewUser(account, name, domainID string) cloudapi.CreateUserRequest {
	return cloudapi.CreateUserRequest{
		Account: account, Username: name, Password: unusablePassword(), FirstName: "Kubernetes", LastName: account,
		Email: name + "@localhost", DomainID: domainID,
	}
}

// unusablePassword is known to nobody. It has letters of both cases and digits, as password policies want.
func unusablePassword() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
