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

	"github.com/dustin/go-humanize/english"

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

// Provision is the plan from the request to API keys. Steps describes it in
// words; an empty Steps means that keys exist already.
type Provision struct {
	Steps []string

	Domain  cloudapi.Domain
	Account string
	User    string
	Project cloudstack.Project // zero without a project

	role        *rolePlan // nil when no role is needed or made
	newAccount  bool
	newUser     bool
	userID      string // of the existing user
	register    bool
	joinProject bool
	keys        Keys // of the existing user

	// What Apply has made.
	roleID, accountID string
	registered        bool
}

// Changes reports whether Apply changes anything in CloudStack.
func (p *Provision) Changes() bool { return len(p.Steps) > 0 }

// NewKeys reports whether Apply registers keys, which no Secret holds yet.
func (p *Provision) NewKeys() bool { return p.register }

// Plan reads what exists and says what is missing. It changes nothing.
func Plan(ctx context.Context, admin *cloudapi.Client, r Request) (*Provision, error) {
	p := &Provision{Account: r.Account, User: r.User}
	var err error
	if p.Domain, err = findDomain(ctx, admin, r.Domain); err != nil {
		return nil, err
	}
	if r.Project != "" {
		if err := p.planProject(ctx, admin, r); err != nil {
			return nil, err
		}
		if p.Account == "" {
			// One account per project, named so that a second run finds it.
			p.Account = "csccm-" + strings.SplitN(p.Project.ID, "-", 2)[0]
			r.CreateAccount = true
		}
	}
	if p.Account == "" {
		return nil, report.Usage("no account is named for the controller's user",
			"name the account that owns the cluster's VMs with --account, or the project with --project")
	}
	account, err := findAccount(ctx, admin, p.Account, p.Domain)
	if err != nil {
		return nil, err
	}
	if account != nil {
		return p, p.planUser(ctx, admin, r)
	}
	if r.CreateAccount && r.Project != "" {
		return p, p.planAccount(ctx, admin, r)
	}
	return nil, p.noAccount(ctx, admin, r)
}

// noAccount is the error for an account that does not exist and is not made.
func (p *Provision) noAccount(ctx context.Context, admin *cloudapi.Client, r Request) error {
	e := report.Usage(fmt.Sprintf("there is no account %q in domain %s", p.Account, p.Domain.Path),
		"name the account that owns the cluster's VMs (--account, --domain)")
	if r.Project != "" { // whose domain a member must be of
		e.Fix = "name an account of that domain with --account, leave --account out to have one made, or add --create-account"
		return e
	}
	if r.CreateAccount {
		e.What += ", and a new one would own none of the cluster's VMs, so the controller could not work"
		e.Fix += ", or their project (--project NAME, with or without --create-account)"
	}
	if elsewhere := accountElsewhere(ctx, admin, p.Account); elsewhere != "" {
		e.Fix = elsewhere
	}
	return e
}

// planProject finds the project, and with it the domain of the account: CloudStack
// looks for a member by its name in the project's own domain and nowhere else.
func (p *Provision) planProject(ctx context.Context, admin *cloudapi.Client, r Request) error {
	domainID := ""
	if r.Domain != "" {
		domainID = p.Domain.ID
	}
	var err error
	if p.Project, err = findProject(ctx, admin, r.Project, domainID); err != nil {
		return err
	}
	if p.Project.DomainID == "" || p.Project.DomainID == p.Domain.ID {
		return nil
	}
	domains, err := listDomains(ctx, admin)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(domains, func(d cloudapi.Domain) bool { return d.ID == p.Project.DomainID })
	if i < 0 {
		return report.Usage(fmt.Sprintf("project %q is of a domain that this administrator does not see, and its members must be of the same domain", p.Project.Name),
			"log in as an administrator of that domain")
	}
	p.Domain = domains[i]
	return nil
}

// planAccount is the plan for an account that does not exist: minimal role,
// account with its first user, keys.
func (p *Provision) planAccount(ctx context.Context, admin *cloudapi.Client, r Request) error {
	name := cmp.Or(r.Role, DefaultRole)
	plan, err := roleFor(ctx, admin, name, p.Account, r.Commands)
	if err != nil {
		return err
	}
	p.role = &plan
	switch {
	case plan.Create:
		p.step("create role %q of type User that allows %s and denies all others", name, english.Plural(len(plan.Add), "command", ""))
	case plan.changes():
		p.step("complete role %q: allow %s", name, strings.Join(plan.Add, ", "))
	}
	if p.User == "" {
		if p.User, err = freeUserName(ctx, admin, p.Domain, p.Account); err != nil {
			return err
		}
	}
	p.newAccount, p.register = true, true
	p.step("create account %q with role %q and user %q in domain %s", p.Account, name, p.User, p.Domain.Path)
	p.step("register API keys for user %q", p.User)
	return p.planMembership(ctx, r)
}

// planUser is the plan for an account that exists.
func (p *Provision) planUser(ctx context.Context, admin *cloudapi.Client, r Request) error {
	users, err := admin.ListUsers(ctx, "", p.Account, p.Domain.ID)
	if err != nil {
		return explain(fmt.Sprintf("listing the users of account %q", p.Account), err)
	}
	known := r.holder(users, p.Account)
	candidates := []string{r.User}
	if r.User == "" {
		// CloudStack's own Kubernetes service makes ACCOUNT-kubeadmin.
		candidates = []string{DefaultUser, p.Account + "-" + DefaultUser}
	}
	for _, name := range candidates {
		if known < 0 {
			known = slices.IndexFunc(users, func(u cloudapi.User) bool { return u.Username == name && u.Account == p.Account })
		}
	}
	if known >= 0 {
		p.User, p.userID = users[known].Username, users[known].ID
		return p.planKeys(ctx, admin, r, users[known])
	}
	if p.User == "" {
		if p.User, err = freeUserName(ctx, admin, p.Domain, p.Account); err != nil {
			return err
		}
	}
	p.newUser, p.register = true, true
	p.step("create user %q in account %q of domain %s", p.User, p.Account, p.Domain.Path)
	p.step("register API keys for user %q", p.User)
	return p.planMembership(ctx, r)
}

// holder returns the index of the account's user whose keys the cluster's Secret holds; -1 when there is none or another
// user is wanted.
func (r Request) holder(users []cloudapi.User, account string) int {
	if r.InUse.APIKey == "" {
		return -1
	}
	i := slices.IndexFunc(users, func(u cloudapi.User) bool { return u.Account == account && u.APIKey == r.InUse.APIKey })
	if i < 0 || r.User != "" && r.User != users[i].Username && !slices.Contains(r.Former, r.User) {
		return -1
	}
	return i
}

// planKeys re-uses the keys of an existing user. Registering again would kill
// the old pair at once for whoever works with it, so it is done only for a user
// that has none.
func (p *Provision) planKeys(ctx context.Context, admin *cloudapi.Client, r Request, user cloudapi.User) error {
	if user.State != "" && !strings.EqualFold(user.State, "enabled") {
		return report.Remedied(fmt.Errorf("user %q of account %q is %s", user.Username, user.Account, strings.ToLower(user.State)),
			"enable the user, or choose another with --user")
	}
	keys, err := admin.GetUserKeys(ctx, user.ID)
	if err != nil {
		return explain(fmt.Sprintf("reading the keys of user %q", user.Username), err)
	}
	switch {
	case keys != nil && keys.APIKey != "" && keys.SecretKey != "":
		p.keys = Keys{keys.APIKey, keys.SecretKey}
	case r.InUse.APIKey != "" && r.InUse.APIKey == user.APIKey:
		p.keys = r.InUse // a new pair would end the controller's
	default:
		p.register = true
		p.step("register API keys for user %q", user.Username)
	}
	return p.planMembership(ctx, r)
}

// planMembership adds an existing account to the project. Administrators have
// no call in our list that tells the members, so the user's own keys are asked;
// without keys the call is planned, which CloudStack answers with success for a member.
func (p *Provision) planMembership(ctx context.Context, r Request) error {
	if p.Project.ID == "" {
		return nil
	}
	if p.keys.APIKey != "" && r.Sees != nil {
		member, err := r.Sees(ctx, p.keys, p.Project.ID)
		if err != nil {
			return explain(fmt.Sprintf("asking with the keys of user %q whether it is in project %q", p.User, p.Project.Name), err)
		}
		if member {
			return nil
		}
	}
	p.joinProject = true
	p.step("add account %q to project %q", p.Account, p.Project.Name)
	return nil
}

func (p *Provision) step(format string, args ...any) {
	p.Steps = append(p.Steps, fmt.Sprintf(format, args...))
}

// Apply makes what the plan lists and returns the keys. Run again after a
// failure, a new plan holds what is left.
func (p *Provision) Apply(ctx context.Context, admin *cloudapi.Client, done func(step string)) (Keys, error) {
	roleID := ""
	if p.role != nil {
		var err error
		if roleID, err = p.role.apply(ctx, admin); p.role.Create {
			p.roleID = p.role.ID // also where it has not got all of its rules
		}
		if err != nil {
			return Keys{}, err
		}
		if p.role.changes() {
			done(fmt.Sprintf("role %q", p.role.Name))
		}
	}
	if err := p.applyUser(ctx, admin, roleID, done); err != nil {
		return Keys{}, err
	}
	if p.register {
		keys, err := admin.RegisterUserKeys(ctx, p.userID)
		if err != nil {
			return Keys{}, explain(fmt.Sprintf("registering keys for user %q", p.User), err)
		}
		p.keys, p.registered = Keys{keys.APIKey, keys.SecretKey}, true
		done(fmt.Sprintf("API keys of user %q", p.User))
	}
	if p.joinProject {
		if err := p.join(ctx, admin); err != nil {
			return Keys{}, err
		}
		done(fmt.Sprintf("account %q in project %q", p.Account, p.Project.Name))
	}
	return p.keys, nil
}

func (p *Provision) applyUser(ctx context.Context, admin *cloudapi.Client, roleID string, done func(string)) error {
	switch {
	case p.newAccount:
		first := NewUser(p.Account, p.User, p.Domain.ID)
		first.RoleID = roleID
		account, err := admin.CreateAccount(ctx, first)
		if err != nil {
			return explain(fmt.Sprintf("creating account %q", p.Account), err)
		}
		p.accountID = account.ID
		for _, u := range account.Users {
			if u.Username == p.User {
				p.userID = u.ID
			}
		}
		if p.userID == "" {
			return &Error{What: fmt.Sprintf("CloudStack made account %q without user %q", p.Account, p.User), Fix: "run the command again"}
		}
		done(fmt.Sprintf("account %q with user %q", p.Account, p.User))
	case p.newUser:
		user, err := admin.CreateUser(ctx, NewUser(p.Account, p.User, p.Domain.ID))
		if err != nil {
			return explain(fmt.Sprintf("creating user %q in account %q", p.User, p.Account), err)
		}
		p.userID = user.ID
		done(fmt.Sprintf("user %q", p.User))
	}
	return nil
}

func (p *Provision) join(ctx context.Context, admin *cloudapi.Client) error {
	doing := fmt.Sprintf("adding account %q to project %q", p.Account, p.Project.Name)
	submitted, err := admin.AddAccountToProject(ctx, p.Project.ID, p.Account)
	if err == nil && submitted.JobID != "" {
		_, err = admin.Jobs().Wait(ctx, "addAccountToProject", submitted.JobID)
	}
	return explain(doing, err)
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
