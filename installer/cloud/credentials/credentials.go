// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials provides the API keys that the controller works with: it makes them with an administrator's
// login, or reads existing ones from files. It checks the keys with calls to CloudStack; the cluster's Secret holds
// them.
//
// # Whose keys
//
// In CloudStack a role belongs to an account, not to a user: all users of an account have the same rights and see the
// same resources, which only they and the administrators above them see. So the keys must belong to a user in the
// account that owns the cluster's VMs and networks. There are two cases:
//
//   - The cluster's VMs belong to an account: a user is added to that account.
//     Its role is the account's, which csccm must not change, as others work
//     with it; it is only checked. Each cluster of the account has a user of its
//     own. (CloudStack's own Kubernetes service has one user ACCOUNT-kubeadmin
//     for all clusters of an account.)
//   - The cluster's VMs belong to a project: an account of its own, with a
//     minimal role, becomes a member of the project. Here, and for an account
//     that csccm is asked to create, the minimal role applies.
package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
)

// Names that csccm gives by default.
const (
	DefaultRole   = "csccm-kubeadm"
	DefaultUser   = "kubeadmin"
	DefaultDomain = "ROOT"
)

// Keys is a user's key pair. It prints as nothing.
type Keys = cloudapi.Keys

const busy = "check that the management server answers, then run the command again: it continues where it stopped"

// fixes are remedies for calls of an administrator that CloudStack refuses.
var fixes = map[cloudstack.Kind]string{
	cloudstack.KindNotPermitted: "log in as an administrator of the domain, or give existing keys with " +
		"--api-key-file and --secret-key-file",
	cloudstack.KindAuth: "check the credentials; a user with two-factor authentication needs keys " +
		"(--admin-api-key-file, --admin-secret-key-file)",
	cloudstack.KindTransient: busy,
	cloudstack.KindThrottled: busy,
}

// explain adds to an error of the API what was tried, for example "listing the domains", and a remedy.
func explain(doing string, err error) error {
	var known *report.Error
	if err == nil ||
		BadInput(err) ||
		errors.As(err, &known) ||
		report.Interrupted(err) {
		return err // it already says what to do, or is not about CloudStack
	}
	e := report.Errorf("", "%s: %w", doing, err)
	if api, ok := errors.AsType[*cloudstack.Error](err); ok {
		e.Fix = fixes[api.Kind]
	}
	return e
}

// ExplainLogin converts an error of cloudapi.Login to one with a remedy.
func ExplainLogin(apiURL, user, domain string, err error) error {
	api, answered := errors.AsType[*cloudstack.Error](err)
	switch {
	case !answered:
		return explain(fmt.Sprintf("logging in to %s as %q", apiURL, user), err)
	case api.HTTPCode == 0 || api.Kind == cloudstack.KindTransient:
		return unanswered(apiURL, err)
	case api.HTTPCode == http.StatusNetworkAuthenticationRequired:
		return &RefusedError{report.Errorf(
			"give the administrator's keys with --admin-api-key-file and --admin-secret-key-file",
			"user %q has two-factor authentication, which a login of csccm cannot answer: %w", user, err,
		)}
	case api.Kind == cloudstack.KindAuth || api.HTTPCode == 531:
		return &RefusedError{report.Errorf(
			"check the user name, the password and --admin-domain (the path of the user's domain, for example "+
				"ROOT/k8s)",
			"CloudStack at %s refuses the login of user %q in domain %q: %w", apiURL, user, normalPath(domain), err,
		)}
	}

	return report.Errorf(
		"check --api-url: it usually ends in /client/api",
		"logging in to %s as %q failed: %w", apiURL, user, err,
	)
}

// RefusedError is a refused login. Another user name, password or domain may work.
type RefusedError struct{ Problem *report.Error }

func (e *RefusedError) Error() string { return e.Problem.Error() }

// Unwrap returns the error with its remedy.
func (e *RefusedError) Unwrap() error { return e.Problem }

// MustBeAdmin returns an error if the user of the session may not create users. who names the user.
func MustBeAdmin(ctx context.Context, session *cloudapi.Client, who string) error {
	_, err := session.ListDomains(ctx)
	if !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return explain("listing domains", err)
	}
	return &RefusedError{report.Errorf(
		fixes[cloudstack.KindNotPermitted]+" of a user in the account of the cluster's VMs",
		"%s is not an administrator, and cannot create a user for the controller", who,
	)}
}

// unanswered returns the error for a new --api-url at which no CloudStack API answers.
func unanswered(apiURL string, err error) *report.Error {
	return report.Errorf(
		cmp.Or(
			tlsRemedies[cloudstack.TLSFaultOf(err)],
			"check --api-url (it usually ends in /client/api), the network, and --ca-file for a private certificate",
		),
		"no CloudStack API answers at %s: %w", apiURL, err,
	)
}

// BadInput reports whether an error of CloudStack's client is about the configuration: a project that does not exist,
// an invalid ca-file, a key with blanks. The operator must correct the configuration first.
func BadInput(err error) bool {
	var config *cloudconfig.Error
	project, named := errors.AsType[*inventory.ProjectError](err)
	return errors.As(err, &config) || named && project.Err == nil
}

// tlsRemedies are for certificate errors that no ca-file can resolve.
var tlsRemedies = map[cloudstack.TLSFault]string{
	cloudstack.TLSExpired: "have CloudStack's certificate renewed, or correct the clock of this machine",
	cloudstack.TLSOtherHost: "use a host name of CloudStack's certificate in api-url, or have the certificate made " +
		"for this one",
	cloudstack.TLSAbsent: "correct scheme or port of api-url: what answers there is not HTTPS",
}

// keyRemedies are for errors where CloudStack refuses the controller's own keys. Errors of other kinds are about one
// object, which their text names.
var keyRemedies = map[cloudstack.Kind]string{
	cloudstack.KindAuth: "check api-key and secret-key in the cloud-config, and that user and account are enabled; " +
		newKeys,
	cloudstack.KindNotPermitted: "add the command to the role of the keys' account, or give it the default " +
		"role User; " +
		"csccm doctor --only CS-003 names all that is missing",
	cloudstack.KindThrottled: "wait a minute, then run the command again",
	cloudstack.KindTransient: "check api-url in the cloud-config, that the management server answers, and the " +
		"network to CloudStack",
}

// newKeys is the remedy for keys that no longer work. rotate-keys is no remedy, because it finds the user by the keys.
const newKeys = "csccm install --overwrite-secret --admin-user USER --admin-password-file FILE creates new keys"

// untrusted is the remedy for a certificate error that a ca-file resolves.
const untrusted = "give the authority of CloudStack's certificate: ca-file in the file of --cloud-config, or csccm " +
	"install --ca-file FILE for the Secret"

// Remedy returns a remedy, in one line, for an error of CloudStack with the controller's own credentials, or of the
// connection to CloudStack; "" for other errors.
func Remedy(err error) string {
	var config *cloudconfig.Error
	api, answered := errors.AsType[*cloudstack.Error](err)
	switch {
	case errors.As(err, &config):
		return "correct it in the flag, the file or the Secret that it comes from"
	case BadInput(err):
		return "set project-id in the cloud-config to the project of the cluster's VMs, and make the keys' account a " +
			"member of it"
	case !answered || errors.Is(err, context.Canceled):
		return ""
	case strings.Contains(api.Text, "in place of the API"):
		return "correct api-url in the cloud-config: it usually ends in /client/api"
	case strings.Contains(api.Text, "certificate is not trusted"):
		return cmp.Or(tlsRemedies[cloudstack.TLSFaultOf(err)], untrusted)
	}
	return cmp.Or(tlsRemedies[cloudstack.TLSFaultOf(err)], keyRemedies[api.Kind])
}
