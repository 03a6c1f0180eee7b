// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"time"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/plan"
	"github.com/csccm/csccm/installer/commands/register"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/pkg/registration"
)

// entryTimeout limits what is read of the entry in CloudStack's UI: a CloudStack that does not answer delays no uninstall.
const entryTimeout = 10 * time.Second

// entry plans what happens to the cluster's entry in CloudStack's UI. The one that the controller keeps goes with the
// controller; one that csccm register created stays.
func (p *Plan) entry(ctx context.Context, u *run) error {
	options, _, err := plan.Options(ctx, u.Cluster.Kube, p.Namespace, p.Release)
	if err != nil {
		return u.Cluster.Explain(err)
	}
	stays := func(name, why string) {
		p.Stays = append(p.Stays, fmt.Sprintf("entry %s in CloudStack's UI (%scsccm unregister deletes it)", name, why))
	}
	kept := options.RegisterCluster
	cs, err := cloud.OfSecret(ctx, u.Cluster)
	if err == nil {
		u.ends = append(u.ends, cs.Close)
		err = p.readEntry(ctx, u, cs)
	}
	switch {
	case err != nil && kept != "":
		stays(kept, fmt.Sprintf("it was not read: %v; ", err))
	case err != nil, p.registered == nil:
	case kept == "":
		stays(p.registered.Own().Name, "")
		p.registered = nil
	case register.Allowed(ctx, cs, []string{registration.UnregisterCommand}) != nil:
		stays(kept, "the role does not allow "+registration.UnregisterCommand+"; ")
		p.registered = nil
	default:
		u.owner = cs
		p.Deletes = append(p.Deletes, fmt.Sprintf("entry %s in CloudStack's UI; no VM is changed", p.registered.Own().Name))
	}
	return nil //nolint:nilerr // an entry that cannot be read is no reason to keep the controller
}

// readEntry reads the entry, if there is one.
func (p *Plan) readEntry(ctx context.Context, u *run, cs *cloud.Cloud) error {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()
	f, err := register.Read(ctx, u.Cluster, cs, p.Release)
	if err == nil && f.Own() != nil {
		p.registered = f
	}
	return err
}

// unregister deletes the entry. The controller has ended, so nobody creates it again. A failure is a warning: the entry is
// only displayed.
func (u *run) unregister(ctx context.Context, note engine.Note) error {
	f := u.plan.registered
	if f == nil {
		return nil
	}
	u.Progress.Step("Entry %s in CloudStack's UI", f.Own().Name)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		_, err := registration.Unregister(ctx, u.owner.Client, f.Project, f.ClusterID)
		return err
	})
	if err != nil {
		u.Progress.Warn("the entry stays: %v; csccm unregister deletes it", err)
		u.Progress.Done("not deleted")
		return nil
	}
	note("deleted entry %s", f.Own().Name)
	u.Progress.Done("deleted")
	return nil
}
