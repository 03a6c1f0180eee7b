// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials gets the API keys that the controller works with: made
// for it by an administrator's login, or taken from who has them. It checks
// them call by call against CloudStack and keeps them in the cluster's Secret.
//
// # Whose keys
//
// In CloudStack a role belongs to an account, not to a user: all users of an
// account have the same rights and see the same resources, and nobody but the
// account (and administrators above it) sees them. So the keys must be those of
// a user in the account that owns the cluster's VMs and networks. From that
// follow two ways:
//
//   - The cluster's VMs belong to an account: a user is added to that account.
//     Its role is the account's, which csccm must not change, as others work
//     with it; it is only checked. (CloudStack's own Kubernetes service does the
//     same, with a user ACCOUNT-kubeadmin.)
//   - The cluster's VMs belong to a project: an account of its own, with a
//     minimal role, becomes a member of the project. Here, and for an account
//     that csccm is asked to create, the minimal role applies.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Error is a problem with credentials and the way out.
type Error = report.Error

// Names that csccm gives by default.
const (
	DefaultRole   = "csccm-kubeadm"
	DefaultUser   = "kubeadmin"
	DefaultDomain = "ROOT"
)

// Keys is a user's key pair. It prints as nothing.
type Keys = cloudapi.Keys

const busy = "check that the management server answers, then run the command again: it continues where it stopped"

// fixes are what helps where CloudStack refuses an administrator's call.
var fixes = map[cloudstack.Kind]string{
	cloudstack.KindNotPermitted: "log in as an administrator of the domain, or give existing keys with --api-key-file and --secret-key-file",
	cloudstack.KindAuth:         "check the credentials; a user with two-factor authentication needs keys (--admin-api-key-file, --admin-secret-key-file)",
	cloudstack.KindTransient:    busy,
	cloudstack.KindThrottled:    busy,
}

// explain puts an error of the API in the operator's terms. doing says what was tried, for example "listing the domains".
func explain(doing string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &Error{What: doing, Err: err}
	if api, ok := errors.AsType[*cloudstack.Error](err); ok {
		e.Fix = fixes[api.Kind]
	}
	return e
}

// ExplainLogin puts an error of cloudapi.Login in the operator's terms.
func ExplainLogin(apiURL, user, domain string, err error) error {
	var known *Error
	api, answered := errors.AsType[*cloudstack.Error](err)
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case BadInput(err):
		return report.Usage(err.Error(), Remedy(err))
	case answered && (api.HTTPCode == 0 || api.Kind == cloudstack.KindTransient):
		return unanswered(apiURL, err)
	case answered && api.HTTPCode == http.StatusNetworkAuthenticationRequired:
		return &RefusedError{&Error{
			What: fmt.Sprintf("user %q has two-factor authentication, which a login of csccm cannot answer", user),
			Fix:  "give the administrator's keys with --admin-api-key-file and --admin-secret-key-file",
			Err:  err,
		}}
	case answered && (api.Kind == cloudstack.KindAuth || api.HTTPCode == 531):
		return &RefusedError{&Error{
			What: fmt.Sprintf("CloudStack at %s refuses the login of user %q in domain %q", apiURL, user, normalPath(domain)),
			Fix:  "check the user name, the password and --admin-domain (the path of the user's domain, for example ROOT/k8s)",
			Err:  err,
		}}
	}
	return &Error{
		What: fmt.Sprintf("logging in to %s as %q failed", apiURL, user),
		Fix:  "check --api-url: it usually ends in /client/api",
		Err:  err,
	}
}

// RefusedError is a login that another user name, password or domain would mend.
type RefusedError struct{ err *Error }

func (e *RefusedError) Error() string { return e.err.Error() }

// Remedy says how to fix it.
func (e *RefusedError) Remedy() string { return e.err.Fix }

// Unwrap returns the error with its remedy.
func (e *RefusedError) Unwrap() error { return e.err }

// MustBeAdmin refuses a user who may not make users. who names the user.
func MustBeAdmin(ctx context.Context, session *cloudapi.Client, who string) error {
	_, err := session.ListDomains(ctx)
	if !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return explain("listing domains", err)
	}
	return &RefusedError{&Error{
		What: who + " is not an administrator, and cannot make a user for the controller",
		Fix:  "log in as an administrator of the domain, or give keys of a user in the account of the cluster's VMs with --api-key-file and --secret-key-file",
	}}
}
