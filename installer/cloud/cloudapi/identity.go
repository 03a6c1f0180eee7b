// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Types of CloudStack's identity API, with the fields that the installer needs.
type (
	// Role is a role of accounts.
	Role struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	// RolePermission is one rule of a role. Permission is allow or deny, in upper or lower case.
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
		Users    []User `json:"user"`
		// Numbers of the resources that the account owns.
		VMs       int `json:"vmtotal"`
		IPs       int `json:"iptotal"`
		Volumes   int `json:"volumetotal"`
		Snapshots int `json:"snapshottotal"`
		Templates int `json:"templatetotal"`
		Networks  int `json:"networktotal"`
		VPCs      int `json:"vpctotal"`
		Projects  int `json:"projecttotal"`
	}
	// User is a user of an account; APIKey is empty if the user has no keys.
	User struct {
		ID        string `json:"id"`
		Username  string `json:"username"`
		LastName  string `json:"lastname"`
		Account   string `json:"account"`
		AccountID string `json:"accountid"`
		DomainID  string `json:"domainid"`
		Domain    string `json:"domain"`
		State     string `json:"state"`
		RoleName  string `json:"rolename"`
		RoleType  string `json:"roletype"`
		APIKey    string `json:"apikey"`
	}
	// Keys is a user's key pair. It is secret, and prints redacted.
	Keys struct {
		APIKey    string `json:"apikey"`
		SecretKey string `json:"secretkey"`
	}
	// Domain is a domain of accounts; Path has the form ROOT/a/b.
	Domain struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	}
)

// ofCluster is the prefix of the last name of users that csccm created; the UID of the cluster's namespace kube-system
// follows.
const ofCluster = "cluster "

// Cluster returns the cluster that csccm created the user for; "" for any other user.
func (u *User) Cluster() string {
	uid, ours := strings.CutPrefix(u.LastName, ofCluster)
	if !ours {
		return ""
	}
	return uid
}

// Format hides both keys, for every verb.
func (Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(keys)") }

// one sends a command whose answer has a single object. whole reports whether the object is complete.
func one[T any](
	ctx context.Context, c *Client, command, object string, f cloudstack.Params, whole func(*T) bool,
) (out T, err error) {
	answer := map[string]*T{}
	if err := c.Call(ctx, command, f, &answer); err != nil {
		return out, err
	}
	if o := answer[object]; o != nil && whole(o) {
		return *o, nil
	}
	return out, &cloudstack.Error{
		Command:         command,
		HTTPCode:        http.StatusOK,
		Text:            "the answer has no " + object,
		MayHaveHappened: true,
	}
}

// Do sends a command, and waits for its job if it has one.
func (c *Client) Do(ctx context.Context, command string, f cloudstack.Params) error {
	var s cloudstack.Submitted
	err := c.Call(ctx, command, f, &s)
	if err == nil && s.JobID != "" {
		_, err = c.Jobs().Wait(ctx, command, s.JobID)
	}
	return err
}

// ListRoles returns the roles whose name contains name, or all roles if name is "".
func (c *Client) ListRoles(ctx context.Context, name string) ([]Role, error) {
	return cloudstack.List(ctx, c.Client, "listRoles", "role", cloudstack.Params{}.Set("name", name),
		func(r *Role) string { return r.ID })
}

// Disabled reports whether the user is disabled or locked, so that its keys do not work.
func (u *User) Disabled() bool { return u.State != "" && !strings.EqualFold(u.State, "enabled") }

// CreateRole creates a role of type User.
func (c *Client) CreateRole(ctx context.Context, name, description string) (Role, error) {
	f := cloudstack.Params{"name": name, "type": "User", "description": description}
	return one(ctx, c, "createRole", "role", f, func(r *Role) bool { return r.ID != "" })
}

// ListRolePermissions returns a role's rules in the order in which they apply.
func (c *Client) ListRolePermissions(ctx context.Context, roleID string) ([]RolePermission, error) {
	f := cloudstack.Params{"roleid": roleID}
	return cloudstack.List(ctx, c.Client, "listRolePermissions", "rolepermission", f,
		func(p *RolePermission) string { return p.ID })
}

// ListDomains returns all domains that the caller may see.
func (c *Client) ListDomains(ctx context.Context) ([]Domain, error) {
	f := cloudstack.Params{"listall": "true"}
	return cloudstack.List(ctx, c.Client, "listDomains", "domain", f, func(d *Domain) string { return d.ID })
}

// ListAccounts returns the accounts with this name in all domains that the caller may see; all accounts if name is "".
func (c *Client) ListAccounts(ctx context.Context, name string) ([]Account, error) {
	f := cloudstack.Params{"listall": "true"}.Set("name", name)
	return cloudstack.List(ctx, c.Client, "listAccounts", "account", f, func(a *Account) string { return a.ID })
}

// ListUsers returns the users of a domain, or all users if domainID is "".
func (c *Client) ListUsers(ctx context.Context, domainID string) ([]User, error) {
	f := cloudstack.Params{"listall": "true"}.Set("domainid", domainID)
	return cloudstack.List(ctx, c.Client, "listUsers", "user", f, func(u *User) string { return u.ID })
}

// NewUser is a new user for the controller, which uses only its keys and never its password.
type NewUser struct {
	Account, Name, DomainID string
	RoleID                  string // of a new account
	Cluster                 string // UID of the cluster that the user is for
}

// params returns the parameters for a new user. The password is random and not stored. It has letters of both cases and
// digits, as password policies require.
func (u NewUser) params() cloudstack.Params {
	lastName := u.Account
	if u.Cluster != "" {
		lastName = ofCluster + u.Cluster
	}
	return cloudstack.Params{
		"account":   u.Account,
		"username":  u.Name,
		"password":  rand.Text() + "aA1",
		"firstname": "Kubernetes",
		"lastname":  lastName,
		"email":     u.Name + "@localhost",
		"domainid":  u.DomainID,
	}.Set("roleid", u.RoleID)
}

// CreateAccount creates an account and its first user. If the name is taken, the error is KindInvalid.
func (c *Client) CreateAccount(ctx context.Context, u NewUser) (Account, error) {
	return one(ctx, c, "createAccount", "account", u.params(), func(a *Account) bool { return a.ID != "" })
}

// CreateUser creates a user of an account. If the name is taken, the error is cloudstack.KindUnknown (530).
func (c *Client) CreateUser(ctx context.Context, u NewUser) (User, error) {
	return one(ctx, c, "createUser", "user", u.params(), func(u *User) bool { return u.ID != "" })
}

// GetUserKeys returns a user's keys; both are empty if the user never registered any.
func (c *Client) GetUserKeys(ctx context.Context, userID string) (Keys, error) {
	var answer struct {
		Keys Keys `json:"userkeys"`
	}
	err := c.Call(ctx, "getUserKeys", cloudstack.Params{"id": userID}, &answer)
	return answer.Keys, err
}

// RegisterUserKeys creates a new key pair for a user. The user's old keys stop working at once.
func (c *Client) RegisterUserKeys(ctx context.Context, userID string) (Keys, error) {
	f := cloudstack.Params{"id": userID}
	return one(ctx, c, "registerUserKeys", "userkeys", f,
		func(k *Keys) bool { return k.APIKey != "" && k.SecretKey != "" })
}
