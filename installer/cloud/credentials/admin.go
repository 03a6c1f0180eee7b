// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Administrators are the calls that only administrators may make.
type Administrators interface {
	ListDomains(ctx context.Context) ([]cloudstack.Domain, error)
}

// RefusedError is a login that another user name, password or domain would mend.
type RefusedError struct{ err *Error }

func (e *RefusedError) Error() string { return e.err.Error() }

// Remedy says how to fix it.
func (e *RefusedError) Remedy() string { return e.err.Fix }

// Unwrap returns the error with its remedy.
func (e *RefusedError) Unwrap() error { return e.err }

// MustBeAdmin refuses a user who may not make users. who names the user.
func MustBeAdmin(ctx context.Context, session Administrators, who string) error {
	_, err := session.ListDomains(ctx)
	if !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return explain("listing domains", err)
	}
	return &RefusedError{&Error{
		What: who + " is not an administrator, and cannot make a user for the controller",
		Fix:  "log in as an administrator of the domain, or give keys of a user in the account of the cluster's VMs with --api-key-file and --secret-key-file",
	}}
}
