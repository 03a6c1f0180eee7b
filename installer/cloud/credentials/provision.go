// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Request describes the keys to be created.
type Request struct {
	Domain        string   // path (ROOT, ROOT/a/b, /a/b) or id of the account's domain; "" = that of the administrator
	Account       string   // owner of the cluster's VMs; with Project the member account ("" = a new one)
	CreateAccount bool     // with Project: create the account if it does not exist
	Project       string   // name or id of the project that owns the cluster's VMs
	User          string   // user name; "" = kubeadmin, with a number if that is taken
	Role          string   // name of the minimal role for a new account; "" = csccm-kubeadm
	Commands      []string // API commands that the controller calls

	// InUse is the key pair in the cluster's Secret; its user is the controller's. If User names a user that
	// rotate-keys has replaced (one of Former), the plan keeps the user of InUse.
	InUse  Keys
	Former []string

	// Created is the list of what csccm created for this cluster.
	Created *Created

	// Sees reports whether the user of the keys has access to the project; nil means that this cannot be checked.
	Sees func(ctx context.Context, keys Keys, projectID string) (bool, error)
}

// Provision is the plan that leads from the request to API keys. Steps describes the plan in words; if Steps is empty,
// the keys already exist.
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

	// Makes lists the objects that Apply creates in CloudStack. Apply sets their ids.
	Makes []*CreatedObject
	// NewKeys reports whether Apply registers new keys, which no Secret holds yet.
	NewKeys bool

	actions []action
	keys    Keys
}

// action is one change in CloudStack. what names the object that it creates. do sets the id of that object.
type action struct {
	what   string
	object *CreatedObject
	do     func(ctx context.Context, o *CreatedObject) error
}

// add plans an action, which step describes. If its object has a kind, it is added to Makes.
func (p *Provision) add(
	step, what string, o CreatedObject, do func(ctx context.Context, o *CreatedObject) error,
) *CreatedObject {
	p.Steps, p.actions = append(p.Steps, step), append(p.actions, action{what, &o, do})
	if o.Kind != "" {
		p.makes(&o)
	}
	return &o
}

// makes adds an object that an action creates to Makes.
func (p *Provision) makes(o *CreatedObject) {
	if o.Kind != CreatedRole {
		o.DomainID, o.Domain = p.Domain.ID, p.Domain.Path
	}
	p.Makes = append(p.Makes, o)
}

// Changes reports whether Apply changes anything in CloudStack.
func (p *Provision) Changes() bool { return len(p.Steps) > 0 }

// Apply carries the plan out and returns the keys. After a failure, a new plan has the remaining actions.
func (p *Provision) Apply(ctx context.Context, done func(what string)) (Keys, error) {
	for _, a := range p.actions {
		if err := a.do(ctx, a.object); err != nil {
			return Keys{}, explain("making "+a.what, err)
		}
		done(a.what)
	}
	return p.keys, nil
}

// Plan returns what is missing for the keys. It changes nothing.
func Plan(ctx context.Context, admin *cloudapi.Client, r Request) (*Provision, error) {
	p := &Provision{Account: r.Account, User: r.User, r: r, admin: admin}
	if err := p.place(ctx); err != nil {
		return nil, err
	}

	accounts, err := admin.ListAccounts(ctx, p.Account)
	if err != nil {
		return nil, explain(fmt.Sprintf("looking for account %q", p.Account), err)
	}

	if p.users, err = admin.ListUsers(ctx, p.Domain.ID); err != nil {
		return nil, explain("listing the users of domain "+p.Domain.Path, err)
	}

	accountIn := func(d cloudapi.Domain) bool {
		return slices.ContainsFunc(accounts,
			func(a cloudapi.Account) bool { return a.Name == p.Account && a.DomainID == d.ID })
	}

	switch {
	case accountIn(p.Domain):
		err = p.planUser(ctx)
	case p.r.CreateAccount && r.Project != "":
		err = p.planAccount(ctx)
	default:
		fix := "name the account that owns the cluster's VMs (--account, --domain), or their project with --project; " +
			"with --create-account, csccm creates that account as a member of the project"
		if i := slices.IndexFunc(p.domains, accountIn); i >= 0 && r.Project == "" {
			fix = fmt.Sprintf("there is one in %s: --domain %s", p.domains[i].Path, p.domains[i].Path)
		}
		err = report.Usage(fix, "there is no account %q in domain %s", p.Account, p.Domain.Path)
	}

	if err == nil {
		err = p.planMembership(ctx)
	}

	return p, err
}

// place finds the domain and the project, and determines the account.
func (p *Provision) place(ctx context.Context) (err error) {
	if p.domains, err = p.admin.ListDomains(ctx); err != nil {
		return explain("listing domains", err)
	}

	// Without a path or id, choose the administrator's own domain: the highest one that they see.
	found := false
	for i := range p.domains {
		d, want := &p.domains[i], p.r.Domain
		d.Path = normalPath(d.Path)

		higher := p.Domain.ID == "" || strings.Count(d.Path, "/") < strings.Count(p.Domain.Path, "/")
		if want == "" && higher || want != "" && (d.ID == want || strings.EqualFold(d.Path, normalPath(want))) {
			p.Domain, found = *d, true
		}
	}

	switch {
	case !found:
		names := cloudapi.Names(p.domains, func(d *cloudapi.Domain) string { return d.Path })
		return report.Usage(
			"name one of these with --domain: "+some(names),
			"there is no domain %q that this administrator can see", p.r.Domain,
		)
	case p.r.Project != "":
		return p.findProject(ctx)
	case p.Account == "":
		return report.Usage(
			"name the account that owns the cluster's VMs with --account, or the project with --project",
			"no account is named for the controller's user",
		)
	}

	return nil
}

// normalPath returns a domain's path in the form of listDomains: ROOT/a/b.
func normalPath(path string) string { return DefaultDomain + cloudapi.BelowRoot(path) }

// findProject finds the project, and with it the domain of the account: CloudStack looks up a member by its name only
// in the project's own domain. If no account is named, the account's name is derived from the project's id, so that a
// second run finds the account.
func (p *Provision) findProject(ctx context.Context) error {
	projects, err := p.admin.ListProjects(ctx)
	if err != nil {
		return explain("listing projects", err)
	}

	if p.r.Domain != "" { // without a domain, any project counts
		projects = slices.DeleteFunc(projects, func(o cloudstack.Project) bool { return o.DomainID != p.Domain.ID })
	}

	names := cloudapi.Names(projects, func(o *cloudstack.Project) string { return o.Name })
	projects = slices.DeleteFunc(projects,
		func(o cloudstack.Project) bool { return !strings.EqualFold(o.ID, p.r.Project) && o.Name != p.r.Project })
	if len(projects) != 1 {
		return report.Usage(
			"name its id, or one of these, with --project, and its domain with --domain: "+some(names),
			"there is no project %q that these credentials can see, or more than one", p.r.Project,
		)
	}

	p.Project = projects[0]
	i := slices.IndexFunc(p.domains, func(d cloudapi.Domain) bool { return d.ID == p.Project.DomainID })
	if i < 0 {
		return report.Usage(
			"log in as an administrator of that domain",
			"project %q is of a domain that this administrator does not see, and its members must be of the same "+
				"domain", p.Project.Name,
		)
	}

	p.Domain = p.domains[i]
	if p.Account == "" {
		p.Account, p.r.CreateAccount = "csccm-"+strings.SplitN(p.Project.ID, "-", 2)[0], true
	}

	return nil
}

// some returns up to ten of the names, as text for a remedy.
func some(names []string) string {
	slices.Sort(names)
	if len(names) > 10 {
		names = append(names[:10:10], "...")
	}
	return cmp.Or(strings.Join(names, ", "), "(none)")
}

// planAccount plans a new account: the minimal role, the account with its first user, and keys.
func (p *Provision) planAccount(ctx context.Context) error {
	p.nameUser()
	name := cmp.Or(p.r.Role, DefaultRole)
	role, err := p.planRole(ctx, name)
	if err != nil {
		return err
	}

	user := &CreatedObject{Kind: CreatedUser, Name: p.User, Account: p.Account}
	p.add(
		fmt.Sprintf("create account %q with role %q and user %q in domain %s", p.Account, name, p.User, p.Domain.Path),
		fmt.Sprintf("account %q with user %q", p.Account, p.User),
		CreatedObject{Kind: CreatedAccount, Name: p.Account},
		func(ctx context.Context, o *CreatedObject) error {
			account, err := p.admin.CreateAccount(ctx,
				cloudapi.NewUser{
					Cluster:  p.r.Created.Cluster,
					Account:  p.Account,
					Name:     p.User,
					DomainID: p.Domain.ID,
					RoleID:   role.ID,
				})
			o.ID = account.ID
			for i := range account.Users { // there is exactly one
				user.ID = account.Users[i].ID
			}
			return err
		})

	p.makes(user)
	p.addKeys(user, CreatedObject{})
	return nil
}

// addKeys plans new keys for a user. If the user existed before, o is the entry of the keys in Makes.
func (p *Provision) addKeys(user *CreatedObject, o CreatedObject) {
	p.NewKeys = true
	do := func(ctx context.Context, o *CreatedObject) (err error) {
		if p.keys, err = p.admin.RegisterUserKeys(ctx, user.ID); err == nil {
			o.ID = user.ID
		}
		return err
	}
	p.add(fmt.Sprintf("register API keys for user %q", p.User), fmt.Sprintf("API keys of user %q", p.User), o, do)
}

// planUser plans for an existing account. The controller's user is the one whose keys are in the cluster's Secret,
// unless the request names another user that rotate-keys has not replaced.
func (p *Provision) planUser(ctx context.Context) error {
	replaced := slices.Contains(p.r.Former, p.User)
	at := func(is func(u *cloudapi.User) bool) int {
		return slices.IndexFunc(p.users, func(u cloudapi.User) bool { return u.Account == p.Account && is(&u) })
	}
	known := at(func(u *cloudapi.User) bool {
		inUse := u.APIKey != "" && u.APIKey == p.r.InUse.APIKey
		return inUse && !p.foreign(u) && (p.User == "" || p.User == u.Username || replaced)
	})

	switch {
	case known >= 0:
	case p.User != "":
		known = at(func(u *cloudapi.User) bool { return u.Username == p.User })
	default:
		known = at(p.r.Created.Mine)
	}

	if known >= 0 {
		p.User = p.users[known].Username
		return p.planKeys(ctx, &p.users[known])
	}

	p.nameUser()
	user := p.add(
		fmt.Sprintf("create user %q in account %q of domain %s", p.User, p.Account, p.Domain.Path),
		fmt.Sprintf("user %q", p.User),
		CreatedObject{Kind: CreatedUser, Name: p.User, Account: p.Account},
		func(ctx context.Context, o *CreatedObject) error {
			created, err := p.admin.CreateUser(ctx,
				cloudapi.NewUser{Cluster: p.r.Created.Cluster, Account: p.Account, Name: p.User, DomainID: p.Domain.ID})
			o.ID = created.ID
			return err
		})

	p.addKeys(user, CreatedObject{})
	return nil
}

// nameUser chooses a free name for the new user if none is given.
func (p *Provision) nameUser() {
	if p.User == "" {
		p.User = FreeName(DefaultUser, p.users)
	}
}

var numbered = regexp.MustCompile(`-[0-9]+$`)

// FreeName returns a user name that none of these users has: base, or base with a number.
func FreeName(base string, users []cloudapi.User) string {
	name := base
	for n := 2; slices.ContainsFunc(users, func(u cloudapi.User) bool { return u.Username == name }); n++ {
		name = fmt.Sprintf("%s-%d", numbered.ReplaceAllString(base, ""), n)
	}
	return name
}

// foreign reports whether csccm created a user for another cluster.
func (p *Provision) foreign(u *cloudapi.User) bool {
	return u.Cluster() != "" && u.Cluster() != p.r.Created.Cluster
}

// NotMine returns the reason to keep the keys of a user that csccm did not create for this cluster.
func NotMine(user string) string {
	return fmt.Sprintf("user %q was not created for this cluster, and others may use its keys", user)
}

// planKeys re-uses the keys of an existing user. Registering new keys would revoke the old ones at once for everyone
// who uses them, so it is done only for a user without keys, or one that csccm created for this cluster.
func (p *Provision) planKeys(ctx context.Context, user *cloudapi.User) error {
	if user.Disabled() {
		return report.Errorf(
			"enable the user, or choose another with --controller-user",
			"user %q of account %q is %s", user.Username, user.Account, strings.ToLower(user.State),
		)
	}

	if p.foreign(user) {
		return report.Usage(
			"leave out --controller-user for a user of this cluster's own, or name another with it",
			"user %q of account %q is that of cluster %s (the UID of its namespace kube-system)",
			user.Username, user.Account, user.Cluster(),
		)
	}

	keys, err := p.admin.GetUserKeys(ctx, user.ID)
	switch {
	case err != nil:
		return explain(fmt.Sprintf("reading the keys of user %q", user.Username), err)
	case keys.APIKey != "" && keys.SecretKey != "":
		p.keys = keys
	case user.APIKey != "" && user.APIKey == p.r.InUse.APIKey:
		p.keys = p.r.InUse // a new pair would revoke the controller's keys
	case user.APIKey != "" && !p.r.Created.Mine(user):
		return report.Usage(
			"leave out --controller-user for a user of this cluster's own, or name another with it",
			"the keys of user %q cannot be read, and new ones would revoke them; %s",
			user.Username, NotMine(user.Username),
		)
	case p.r.Created.Mine(user):
		p.addKeys(&CreatedObject{ID: user.ID}, CreatedObject{})
	default:
		p.addKeys(&CreatedObject{ID: user.ID}, CreatedObject{Kind: CreatedKeys, Name: p.User, Account: p.Account})
	}

	return nil
}

// planMembership plans to add an account to the project. An administrator has no call here that lists the members, so
// membership is checked with the user's own keys. Without keys the call is planned anyway: CloudStack accepts it for an
// account that is already a member.
func (p *Provision) planMembership(ctx context.Context) error {
	if p.Project.ID == "" {
		return nil
	}
	if p.keys.APIKey != "" && p.r.Sees != nil {
		member, err := p.r.Sees(ctx, p.keys, p.Project.ID)
		if err != nil || member {
			return explain(fmt.Sprintf("asking with the keys of user %q whether it is in project %q", p.User,
				p.Project.Name), err)
		}
	}

	do := func(ctx context.Context, _ *CreatedObject) error {
		return p.admin.Do(ctx, "addAccountToProject",
			cloudstack.Params{"projectid": p.Project.ID, "account": p.Account})
	}
	p.add(fmt.Sprintf("add account %q to project %q", p.Account, p.Project.Name),
		fmt.Sprintf("account %q a member of project %q", p.Account, p.Project.Name), CreatedObject{}, do)
	return nil
}
