// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package login logs an administrator or a user in, and asks for what is missing of that.
package login

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
)

// Login asks for what is missing of an administrator's login and logs in.
type Login struct {
	Prompt   prompt.Prompter
	Progress report.Progress
	// Again: somebody is at the terminal, so what CloudStack refuses is asked for again.
	Again  bool
	APIURL string

	User, Password, Domain string // as given; "" is asked for

	AnyUser bool // a user who is no administrator will do

	// Do logs in. Its session must be that of an administrator, unless AnyUser is set.
	Do func(ctx context.Context, user, password, domain string) (*cloudapi.Client, error)
}

const passwordFlags = "--admin-password-file FILE or --admin-password-stdin, or set CSCCM_ADMIN_PASSWORD"

// Run logs in. User and Domain are what worked then; the password is forgotten.
func (l *Login) Run(ctx context.Context) error {
	given := *l
	defer func() { l.Password = "" }()
	for first := true; ; first = false {
		asked, err := l.ask(ctx, l.User == "" || !first)
		if err != nil {
			return err
		}
		l.Progress.Step("Logging in to CloudStack at %s", l.APIURL)
		err = l.once(ctx)
		if err == nil {
			l.Progress.Done("")
			return nil
		}
		l.Progress.Fail("")
		var refused *credentials.RefusedError
		if !asked || !l.Again || ctx.Err() != nil || !errors.As(err, &refused) {
			return err
		}
		l.Progress.Warn("%v", err)
		l.Progress.Info("%s", refused.Remedy())
		l.User, l.Password, l.Domain = given.User, given.Password, given.Domain
	}
}

// ask reports whether it has asked anything. Who has given a user name is asked for its domain only where the login failed.
func (l *Login) ask(ctx context.Context, domain bool) (asked bool, err error) {
	if l.User == "" {
		asked = true
		if l.User, err = l.Prompt.Input(ctx, prompt.Question{
			Message: "CloudStack administrator", Default: "admin", Validate: notEmpty,
			Flag: "--admin-user USER with --admin-password-file FILE (or --admin-api-key-file and --admin-secret-key-file)",
		}); err != nil {
			return asked, err
		}
	}
	if l.Domain == "" && l.Again && domain {
		asked = true
		if l.Domain, err = l.Prompt.Input(ctx, prompt.Question{
			Message: "Domain of " + l.User, Default: credentials.DefaultDomain, Flag: "--admin-domain PATH",
			Help: "the path of the administrator's domain as CloudStack shows it, for example ROOT/k8s", Validate: notEmpty,
		}); err != nil {
			return asked, err
		}
	}
	if l.Domain == "" {
		l.Domain = credentials.DefaultDomain
	}
	if l.Password == "" {
		asked = true
		l.Password, err = l.Prompt.Secret(ctx, prompt.Question{Message: "Password of " + l.User, Flag: passwordFlags, Validate: notEmpty})
	}
	return asked, err
}

func (l *Login) once(ctx context.Context) error {
	session, err := l.Do(ctx, l.User, l.Password, l.Domain)
	if err != nil || l.AnyUser {
		return credentials.ExplainLogin(l.APIURL, l.User, l.Domain, err)
	}
	return credentials.MustBeAdmin(ctx, session, fmt.Sprintf("user %q", l.User))
}

func notEmpty(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("an answer is needed")
	}
	return nil
}
