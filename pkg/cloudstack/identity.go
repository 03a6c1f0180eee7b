// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// The calls of this file are the installer's; the controller makes none of them.

type roleJSON struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Default     flexBool `json:"isdefault"`
}

func (r *roleJSON) toRole() Role {
	return Role{ID: r.ID, Name: r.Name, Type: r.Type, Description: r.Description, Default: bool(r.Default)}
}

// ListRoles lists roles: those of exactly this name (case-insensitive), or all for "".
func (c *Client) ListRoles(ctx context.Context, name string) ([]Role, error) {
	roles, err := list(ctx, c, "listRoles", "role", filter{}.set("name", name), func(r *roleJSON) string { return r.ID }, (*roleJSON).toRole)
	if name != "" {
		// The server's filter also finds names that contain this one.
		roles = slices.DeleteFunc(roles, func(r Role) bool { return !strings.EqualFold(r.Name, name) })
	}
	return roles, err
}

// CreateRole makes a role of a type (Admin, ResourceAdmin, DomainAdmin, User).
func (c *Client) CreateRole(ctx context.Context, name, roleType, description string) (*Role, error) {
	const command = "createRole"
	var answer struct {
		Role roleJSON `json:"role"`
	}
	f := filter{"name": name, "type": roleType}.set("description", description)
	if err := c.custom(ctx, command, f, callOptions{}, &answer); err != nil {
		return nil, err
	}
	if err := created(command, answer.Role.ID); err != nil {
		return nil, err
	}
	role := answer.Role.toRole()
	return &role, nil
}

// created checks that the answer of a creating command names what it made.
func created(command, id string) error {
	if id != "" {
		return nil
	}
	return &Error{Kind: KindUnknown, Command: command, HTTPCode: http.StatusOK, Text: "the answer names no object", MayHaveHappened: true}
}

// ListRolePermissions lists a role's rules in the order in which they apply.
func (c *Client) ListRolePermissions(ctx context.Context, roleID string) ([]RolePermission, error) {
	return listWhole(ctx, c, "listRolePermissions", "rolepermission", filter{"roleid": roleID}, func(p *RolePermission) RolePermission {
		p.Permission = strings.ToLower(p.Permission)
		return *p
	})
}

// CreateRolePermission appends a rule (letters and *) with permission allow or deny to a role.
func (c *Client) CreateRolePermission(ctx context.Context, roleID, rule, permission, description string) error {
	const command = "createRolePermission"
	var answer struct {
		Permission struct {
			ID string `json:"id"`
		} `json:"rolepermission"`
	}
	f := filter{"roleid": roleID, "rule": rule, "permission": permission}.set("description", description)
	if err := c.custom(ctx, command, f, callOptions{}, &answer); err != nil {
		return err
	}
	return created(command, answer.Permission.ID)
}

// ListDomains lists all domains the caller may see.
func (c *Client) ListDomains(ctx context.Context) ([]Domain, error) {
	return listAll(ctx, c, "listDomains", "domain", filter{"listall": "true"}, callOptions{}, func(d *Domain) string { return d.ID })
}

type accountJSON struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	DomainID string  `json:"domainid"`
	Domain   string  `json:"domain"`
	RoleID   string  `json:"roleid"`
	RoleName string  `json:"rolename"`
	State    string  `json:"state"`
	Type     flexInt `json:"accounttype"`
	Users    []User  `json:"user"`

	VMs       flexInt `json:"vmtotal"`
	IPs       flexInt `json:"iptotal"`
	Volumes   flexInt `json:"volumetotal"`
	Snapshots flexInt `json:"snapshottotal"`
	Templates flexInt `json:"templatetotal"`
	Networks  flexInt `json:"networktotal"`
	VPCs      flexInt `json:"vpctotal"`
	Projects  flexInt `json:"projecttotal"`
}

// resources are those that the account owns, by name; those of which there are none are left out.
func (a *accountJSON) resources() map[string]int {
	out := map[string]int{}
	for name, n := range map[string]flexInt{
		"VM": a.VMs, "public address": a.IPs, "volume": a.Volumes, "snapshot": a.Snapshots, "template": a.Templates,
		"network": a.Networks, "VPC": a.VPCs, "project": a.Projects,
	} {
		if n > 0 {
			out[name] = int(n)
		}
	}
	return out
}

func (a *accountJSON) toAccount() Account {
	return Account{
		ID: a.ID, Name: a.Name, DomainID: a.DomainID, Domain: a.Domain, RoleID: a.RoleID, RoleName: a.RoleName,
		State: a.State, Type: int(a.Type), Users: a.Users, Resources: a.resources(),
	}
}

// ListAccounts lists accounts by exact name and domain; "" means any.
func (c *Client) ListAccounts(ctx context.Context, name, domainID string) ([]Account, error) {
	by := "name"
	if domainID != "" {
		by = "keyword" // an unknown name in a domain is an error to the server, not an empty list
	}
	f := filter{"listall": "true"}.set(by, name).set("domainid", domainID)
	accounts, err := list(ctx, c, "listAccounts", "account", f, func(a *accountJSON) string { return a.ID }, (*accountJSON).toAccount)
	return slices.DeleteFunc(accounts, func(a Account) bool {
		return name != "" && !strings.EqualFold(a.Name, name) || domainID != "" && a.DomainID != domainID
	}), err
}

// CreateAccountRequest makes an account with one user.
type CreateAccountRequest struct {
	Account, Username, Password, FirstName, LastName, Email, RoleID, DomainID string
}

// CreateUserRequest makes a further user of an account.
type CreateUserRequest struct {
	Account, Username, Password, FirstName, LastName, Email, DomainID string
}

// String leaves the password out.
func (r CreateAccountRequest) String() string {
	return fmt.Sprintf("create account %s with user %s in domain %s", r.Account, r.Username, r.DomainID)
}

// Format writes String for every verb.
func (r CreateAccountRequest) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// String leaves the password out.
func (r CreateUserRequest) String() string {
	return fmt.Sprintf("create user %s of account %s in domain %s", r.Username, r.Account, r.DomainID)
}

// Format writes String for every verb.
func (r CreateUserRequest) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// String shows neither key.
func (k UserKeys) String() string { return "UserKeys(" + redacted + ")" }

// Format writes String for every verb.
func (k UserKeys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// CreateAccount makes an account and its first user; a name that is taken is KindInvalid.
func (c *Client) CreateAccount(ctx context.Context, r CreateAccountRequest) (*Account, error) {
	const command = "createAccount"
	var answer struct {
		Account accountJSON `json:"account"`
	}
	f := filter{"username": r.Username, paramPassword: r.Password, "firstname": r.FirstName, "lastname": r.LastName, "email": r.Email}.
		set("account", r.Account).set("roleid", r.RoleID).set("domainid", r.DomainID)
	if err := c.custom(ctx, command, f, callOptions{}, &answer); err != nil {
		return nil, err
	}
	if err := created(command, answer.Account.ID); err != nil {
		return nil, err
	}
	account := answer.Account.toAccount()
	return &account, nil
}

// CreateUser makes a user; a name that is taken is KindUnknown (530).
func (c *Client) CreateUser(ctx context.Context, r CreateUserRequest) (*User, error) {
	const command = "createUser"
	var answer struct {
		User User `json:"user"`
	}
	f := filter{"account": r.Account, "username": r.Username, paramPassword: r.Password, "firstname": r.FirstName, "lastname": r.LastName, "email": r.Email}.
		set("domainid", r.DomainID)
	if err := c.custom(ctx, command, f, callOptions{}, &answer); err != nil {
		return nil, err
	}
	if err := created(command, answer.User.ID); err != nil {
		return nil, err
	}
	return &answer.User, nil
}

// ListUsers lists users by exact user name, account and domain; "" means any.
// As an admin, account needs domainID.
func (c *Client) ListUsers(ctx context.Context, username, account, domainID string) ([]User, error) {
	f := filter{}.set("username", username).set("account", account).set("domainid", domainID)
	if account == "" {
		f["listall"] = "true"
	}
	users, err := listAll(ctx, c, "listUsers", "user", f, callOptions{}, func(u *User) string { return u.ID })
	return slices.DeleteFunc(users, func(u User) bool {
		return username != "" && !strings.EqualFold(u.Username, username) ||
			account != "" && !strings.EqualFold(u.Account, account) ||
			domainID != "" && u.DomainID != domainID
	}), err
}

// GetUserKeys reads a user's keys; both are empty when the user never registered any.
func (c *Client) GetUserKeys(ctx context.Context, userID string) (*UserKeys, error) {
	return c.userKeys(ctx, "getUserKeys", userID)
}

// RegisterUserKeys makes a new pair of keys; the user's old keys stop working at once.
func (c *Client) RegisterUserKeys(ctx context.Context, userID string) (*UserKeys, error) {
	const command = "registerUserKeys"
	keys, err := c.userKeys(ctx, command, userID)
	if err != nil {
		return nil, err
	}
	if keys.APIKey == "" || keys.SecretKey == "" {
		return nil, &Error{Kind: KindUnknown, Command: command, HTTPCode: http.StatusOK, Text: "the answer has no keys", MayHaveHappened: true}
	}
	return keys, nil
}

func (c *Client) userKeys(ctx context.Context, command, userID string) (*UserKeys, error) {
	var answer struct {
		Keys struct {
			APIKey    string `json:"apikey"`
			SecretKey string `json:"secretkey"`
		} `json:"userkeys"`
	}
	if err := c.custom(ctx, command, filter{"id": userID}, callOptions{}, &answer); err != nil {
		return nil, err
	}
	return &UserKeys{APIKey: answer.Keys.APIKey, SecretKey: answer.Keys.SecretKey}, nil
}

// DeleteUser deletes a user, and with it its keys.
func (c *Client) DeleteUser(ctx context.Context, id string) error {
	return c.succeed(ctx, "deleteUser", id)
}

// DeleteRole deletes a role; one that an account uses is KindNotPermitted or KindInvalid.
func (c *Client) DeleteRole(ctx context.Context, id string) error {
	return c.succeed(ctx, "deleteRole", id)
}

// DeleteAccount deletes an account with its users and everything that it owns.
func (c *Client) DeleteAccount(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteAccount", filter{"id": id})
}

// succeed sends a command that answers success alone.
func (c *Client) succeed(ctx context.Context, command, id string) error {
	var answer struct {
		Success flexBool `json:"success"`
	}
	if err := c.custom(ctx, command, filter{"id": id}, callOptions{}, &answer); err != nil {
		return err
	}
	if !answer.Success {
		return &Error{Kind: KindUnknown, Command: command, HTTPCode: http.StatusOK, Text: "the answer reports no success", MayHaveHappened: true}
	}
	return nil
}

// AddAccountToProject makes an account a member of a project.
func (c *Client) AddAccountToProject(ctx context.Context, projectID, account string) (Submitted, error) {
	return c.submit(ctx, "addAccountToProject", filter{"projectid": projectID, "account": account})
}
