// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// cloud plans what is removed from CloudStack, or names what stays there.
func (p *Plan) cloud(ctx context.Context, u *run) error {
	var err error
	if p.made, err = credentials.ReadMade(ctx, u.Cluster.Kube, p.Namespace); err != nil {
		return u.Cluster.Explain(err)
	}
	p.Made = append(p.Made, p.made.Objects...)
	var unusable *credentials.Error
	u.owner, err = cloud.OfSecret(ctx, u.Cluster)
	switch {
	case err == nil:
		u.ends = append(u.ends, u.owner.Close)
		p.entry(ctx, u)
	case !errors.As(err, &unusable) || unusable.Code != report.ExitUsage: // there may be keys that others have too
		return u.Cluster.Explain(err)
	}
	if !u.DeleteUser {
		for _, text := range p.made.Texts() {
			p.Stays = append(p.Stays, text+" in CloudStack, made by csccm (--delete-user removes it)")
		}
		if len(p.made.Objects) == 0 {
			p.Stays = append(p.Stays, "the controller's user and keys in CloudStack, which csccm did not make")
		}
		return nil
	}
	if len(p.made.Objects) == 0 {
		p.Stays = append(p.Stays, "the controller's user and keys in CloudStack: no list says that csccm made them")
		return nil
	}
	login := cloudconfig.Default()
	if u.owner != nil {
		p.apiKey = u.owner.Config.APIKey
		if strings.EqualFold(u.owner.Config.APIURL, p.made.APIURL) {
			login = *u.owner.Config
		}
	}
	login.APIURL, login.SSLNoVerify = p.made.APIURL, p.made.SSLNoVerify
	login.APIKey, login.SecretKey, login.ProjectID = "", "", ""
	login.CAFile = cmp.Or(u.CAFile, login.CAFile)
	admin, end, err := u.Admin(ctx, &login)
	if err != nil {
		return err
	}
	u.admin, u.ends = admin, append(u.ends, end)
	if p.removal, err = credentials.PlanRemoval(ctx, admin, p.made); err != nil {
		return err
	}
	for i := range p.removal.Steps {
		p.Deletes = append(p.Deletes, p.removal.Steps[i].Text+" in CloudStack")
	}
	for _, o := range p.removal.Gone {
		p.Deletes = append(p.Deletes, o.String()+" from csccm's list: it is no longer in CloudStack")
	}
	p.Stays = append(p.Stays, p.removal.Stays...)
	return nil
}

// endsKeys reports whether the keys of the Secret end with what is removed from CloudStack.
func (p *Plan) endsKeys() bool {
	return p.removal != nil && slices.Contains(p.removal.APIKeys, p.apiKey)
}

// removeUser removes what csccm made in CloudStack, once nothing works with it any more.
func (u *run) removeUser(ctx context.Context, note engine.Note) error {
	r := u.plan.removal
	u.Progress.Step("What csccm made in CloudStack")
	forget := func(ctx context.Context, objects []credentials.MadeObject) error {
		return u.Cluster.Explain(credentials.ForgetMade(ctx, u.Cluster.Kube, u.plan.Namespace, objects...))
	}
	if err := forget(ctx, r.Gone); err != nil {
		return err
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		err := engine.Shielded(ctx, func(ctx context.Context) error {
			done, err := s.Do(ctx, u.admin)
			if err != nil {
				return err
			}
			note("removed %s", s.Text)
			return forget(ctx, done)
		})
		if err != nil {
			return err
		}
		u.Progress.Info("removed %s", s.Text)
	}
	u.Progress.Done("%d removed", len(r.Steps))
	return nil
}
