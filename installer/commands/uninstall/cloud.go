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
	made, err := credentials.ReadMade(ctx, u.Cluster.Kube, p.Namespace)
	if err != nil {
		return u.Cluster.Explain(err)
	}
	p.Made = append(p.Made, made.Objects...)
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
		for _, o := range made.Objects {
			p.Stays = append(p.Stays, o.String()+" in CloudStack, made by csccm (--delete-user removes it)")
		}
		if len(made.Objects) == 0 {
			p.Stays = append(p.Stays, "the controller's user and keys in CloudStack, which csccm did not make")
		}
		return nil
	}
	if len(made.Objects) == 0 {
		p.Stays = append(p.Stays, "the controller's user and keys in CloudStack: no list says that csccm made them")
		return nil
	}
	login, key := cloudconfig.Default(), ""
	if u.owner != nil {
		key = u.owner.Config.APIKey
		if strings.EqualFold(u.owner.Config.APIURL, made.APIURL) {
			login = *u.owner.Config
		}
	}
	login.APIURL, login.SSLNoVerify = made.APIURL, made.SSLNoVerify
	login.APIKey, login.SecretKey, login.ProjectID = "", "", ""
	login.CAFile = cmp.Or(u.CAFile, login.CAFile)
	admin, end, err := u.Admin(ctx, &login)
	if err != nil {
		return err
	}
	u.ends = append(u.ends, end)
	removal, err := credentials.PlanRemoval(ctx, admin, made)
	if err != nil {
		return err
	}
	p.ends = slices.Contains(removal.APIKeys, key)
	p.Stays = append(p.Stays, removal.Stays...)
	for i := range removal.Steps {
		s := &removal.Steps[i]
		p.delete(s.Text+" in CloudStack", func(ctx context.Context, note engine.Note) error {
			u.Progress.Step("%s in CloudStack", s.Text)
			return engine.Shielded(ctx, func(ctx context.Context) error {
				done, err := s.Do(ctx, admin)
				if err != nil {
					return err
				}
				note("removed")
				u.Progress.Done("removed")
				return u.forget(ctx, done)
			})
		}, s.Text+" in CloudStack")
	}
	if len(removal.Gone) == 0 {
		return nil
	}
	var texts []string
	for _, o := range removal.Gone {
		texts = append(texts, o.String()+" from csccm's list: it is no longer in CloudStack")
	}
	p.delete("csccm's list", func(ctx context.Context, _ engine.Note) error { return u.forget(ctx, removal.Gone) }, texts...)
	return nil
}

func (u *run) forget(ctx context.Context, objects []credentials.MadeObject) error {
	return u.Cluster.Explain(credentials.ForgetMade(ctx, u.Cluster.Kube, u.plan.Namespace, objects...))
}
