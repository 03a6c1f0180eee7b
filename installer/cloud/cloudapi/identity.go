// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// The types of this group are what the installer needs of the identity calls.
type (
	// Role is a role that accounts have.
	Role struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	// RolePermission is one rule of a role; Permission is allow or deny, in any case.
	RolePermission struct {
		ID         string `json:"id"`
		Rule       string `json:"rule"`
		Permission string `json:"permission"`
	}
	// Account owns resources.
	Account struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		DomainID string `json:"domainid"`
		RoleID   string `json:"roleid"`
		RoleName string `json:"rolename"`
		Users    []User `json:"user"`
		// What it owns.
		VMs       int `json:"vmtotal"`
		IPs       int `json:"iptotal"`
		Volumes   int `json:"volumetotal"`
		Snapshots int `json:"snapshottotal"`
		Templates int `json:"templatetotal"`
		Networks  int `json:"networktotal"`
		VPCs      int `json:"vpctotal"`
		Projects  int `json:"projecttotal"`
	}
	// User is one login of an account; APIKey is empty while it has no keys.
	User struct {
		ID        string `json:"id"`
		Username  string `json:"username"`
		Account   string `json:"account"`
		AccountID string `json:"accountid"`
		DomainID  string `json:"domainid"`
		Domain    string `json:"domain"`
		State     string `json:"state"`
		RoleName  string `json:"rolename"`
		RoleType  string `json:"roletype"`
		APIKey    string `json:"apikey"`
	}
	// Keys are a user's key pair, which is secret: it prints redacted.
	Keys struct {
		APIKey    string `json:"apikey"`
		SecretKey string `json:"secretkey"`
	}
	// Domain is a domain of accounts; Path is like ROOT/a/b.
	Domain struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Path string `json:"path"`
	}
)

// ListRoles lists roles: those of exactly this name (case-insensitive), or all for "".
func (c *Client) ListRoles(ctx context.Context, name string) ([]Role, error) {
	roles, err := cloudstack.List(ctx, c.Client, "listRoles", "role", cloudstack.Params{}.Set("name", name), func(r *Role) string { return r.ID })
	if name != "" {
		// The server's cloudstack.Params also finds names that contain this one.
		roles = slices.DeleteFunc(roles, func(r Role) bool { return !strings.EqualFold(r.Name, name) })
	}
	return roles, err
}

// CreateRole makes a role of a type (Admin, ResourceAdmin, DomainAdmin, User).
func (c *Client) CreateRole(ctx context.Context, name, roleType, description string) (*Role, error) {
	var answer struct {
		Role Role `json:"role"`
	}
	f := cloudstack.Params{"name": name, "type": roleType}.Set("description", description)
	if err := c.create(ctx, "createRole", f, &answer, &answer.Role.ID); err != nil {
		return nil, err
	}
	return &answer.Role, nil
}

// create sends a command that makes an object at once, and checks that the answer names the object.
func (c *Client) create(ctx context.Context, command string, f cloudstack.Params, answer any, id *string) error {
	if err := c.Call(ctx, command, f, answer); err != nil {
		return err
	}
	if *id == "" {
		return oddSuccess(command, "the answer names no object")
	}
	return nil
}

// oddSuccess is the error of a call that CloudStack answered with success, but not with what a success has.
func oddSuccess(command, text string) *cloudstack.Error {
	return &cloudstack.Error{Kind: cloudstack.KindUnknown, Command: command, HTTPCode: http.StatusOK, Text: text, MayHaveHappened: true}
}

// ListRolePermissions lists a role's rules in the order in which they apply.
func (c *Client) ListRolePermissions(ctx context.Context, roleID string) ([]RolePermission, error) {
	return cloudstack.List(ctx, c.Client, "listRolePermissions", "rolepermission", cloudstack.Params{"roleid": roleID}, func(p *RolePermission) string { return p.ID })
}

// CreateRolePermission appends a rule (letters and *) with permission allow or deny to a role.
func (c *Client) CreateRolePermission(ctx context.Context, roleID, rule, permission string) error {
	var answer struct {
		Permission struct {
			ID string `json:"id"`
		} `json:"rolepermission"`
	}
	f := cloudstack.Params{"roleid": roleID, "rule": rule, "permission": permission}
	return c.create(ctx, "createRolePermission", f, &answer, &answer.Permission.ID)
}

// ListDomains lists all domains the caller may see.
func (c *Client) ListDomains(ctx context.Context) ([]Domain, error) {
	return cloudstack.List(ctx, c.Client, "listDomains", "domain", cloudstack.Params{"listall": "true"}, func(d *Domain) string { return d.ID })
}

// Resources returns how many VMs, networks and so on an account owns, by their noun, without those of which it owns none.
func (a *Account) Resources() map[string]int {
	out := map[string]int{
		"VM": a.VMs, "public address": a.IPs, "volume": a.Volumes, "snapshot": a.Snapshots, "template": a.Templates,
		"network": a.Networks, "VPC": a.VPCs, "project": a.Projects,
	}
	maps.DeleteFunc(out, func(_ string, n int) bool { return n == 0 })
	return out
}

// ListAccounts lists accounts by exact name and domain; "" means any.
func (c *Client) ListAccounts(ctx context.Context, name, domainID string) ([]Account, error) {
	by := "name"
	if domainID != "" {
		by = "keyword" // an unknown name in a domain is an error to the server, not an empty list
	}
	f := cloudstack.Params{"listall": "true"}.Set(by, name).Set("domainid", domainID)
	accounts, err := cloudstack.List(ctx, c.Client, "listAccounts", "account", f, func(a *Account) string { return a.ID })
	return slices.DeleteFunc(accounts, func(a Account) bool {
		return name != "" && !strings.EqualFold(a.Name, name) || domainID != "" && a.DomainID != domainID
	}), err
}

// CreateUserRequest makes a user: the first one of a new account, or a further one of an account.
type CreateUserRequest struct {
	Account, Username, Password, FirstName, LastName, Email, DomainID string
	RoleID                                                            string // of a new account
}

// Format leaves the password out, for every verb.
func (r CreateUserRequest) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "create user %s of account %s in domain %s", r.Username, r.Account, r.DomainID)
}

func (r CreateUserRequest) parameters() cloudstack.Params {
	return cloudstack.Params{
		"account": r.Account, "username": r.Username, "password": r.Password,
		"firstname": r.FirstName, "lastname": r.LastName, "email": r.Email,
	}.Set("domainid", r.DomainID)
}

// Format shows neither key, for every verb.
func (Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(keys)") }

// CreateAccount makes an account and its first user; a name that is taken is KindInvalid.
func (c *Client) CreateAccount(ctx context.Context, r CreateUserRequest) (*Account, error) {
	var answer struct {
		Account Account `json:"account"`
	}
	f := r.parameters().Set("roleid", r.RoleID)
	if err := c.create(ctx, "createAccount", f, &answer, &answer.Account.ID); err != nil {
		return nil, err
	}
	return &answer.Account, nil
}

// CreateUser makes a user; a name that is taken is cloudstack.KindUnknown (530).
func (c *Client) CreateUser(ctx context.Context, r CreateUserRequest) (*User, error) {
	var answer struct {
		User User `json:"user"`
	}
	if err := c.create(ctx, "createUser", r.parameters(), &answer, &answer.User.ID); err != nil {
		return nil, err
	}
	return &answer.User, nil
}

// ListUsers lists users by exact user name, account and domain; "" means any.
// As an admin, account needs domainID.
func (c *Client) ListUsers(ctx context.Context, username, account, domainID string) ([]User, error) {
	f := cloudstack.Params{}.Set("username", username).Set("account", account).Set("domainid", domainID)
	if account == "" {
		f["listall"] = "true"
	}
	users, err := cloudstack.List(ctx, c.Client, "listUsers", "user", f, func(u *User) string { return u.ID })
	return slices.DeleteFunc(users, func(u User) bool {
		return username != "" && !strings.EqualFold(u.Username, username) ||
			account != "" && !strings.EqualFold(u.Account, account) ||
			domainID != "" && u.DomainID != domainID
	}), err
}

// GetUserKeys reads a user's keys; both are empty when the user never registered any.
func (c *Client) GetUserKeys(ctx context.Context, userID string) (*Keys, error) {
	return c.userKeys(ctx, "getUserKeys", userID)
}

// RegisterUserKeys makes a new pair of keys; the user's old keys stop working at once.
func (c *Client) RegisterUserKeys(ctx context.Context, userID string) (*Keys, error) {
	const command = "registerUserKeys"
	keys, err := c.userKeys(ctx, command, userID)
	if err != nil {
		return nil, err
	}
	if keys.APIKey == "" || keys.SecretKey == "" {
		return nil, oddSuccess(command, "the answer has no keys")
	}
	return keys, nil
}

func (c *Client) userKeys(ctx context.Context, command, userID string) (*Keys, error) {
	var answer struct {
		Keys Keys `json:"userkeys"`
	}
	if err := c.Call(ctx, command, cloudstack.Params{"id": userID}, &answer); err != nil {
		return nil, err
	}
	return &answer.Keys, nil
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
func (c *Client) DeleteAccount(ctx context.Context, id string) error {
	return c.finish(ctx, "deleteAccount", cloudstack.Params{"id": id})
}

// finish submits a command and waits until its job has ended.
func (c *Client) finish(ctx context.Context, command string, f cloudstack.Params) error {
	s, err := c.Submit(ctx, command, f)
	if err == nil && s.JobID != "" {
		_, err = c.Jobs().Wait(ctx, command, s.JobID)
	}
	return err
}

// succeed sends a command that answers success alone.
func (c *Client) succeed(ctx context.Context, command, id string) error {
	var answer struct {
		Success bool `json:"success"`
	}
	if err := c.Call(ctx, command, cloudstack.Params{"id": id}, &answer); err != nil {
		return err
	}
	if !answer.Success {
		return oddSuccess(command, "the answer reports no success")
	}
	return nil
}

// AddAccountToProject makes an account a member of a project.
func (c *Client) AddAccountToProject(ctx context.Context, projectID, account string) error {
	return c.finish(ctx, "addAccountToProject", cloudstack.Params{"projectid": projectID, "account": account})
}
