// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/registration"
)

// entryTimeout limits what is read of the entry in CloudStack's UI: a CloudStack that does not answer delays no uninstall.
const entryTimeout = 10 * time.Second

// entry plans what happens to the cluster's entry in CloudStack's UI, which the controller keeps (chart value
// registerCluster). An entry that cannot be read is no reason to keep the controller.
func (p *Plan) entry(ctx context.Context, u *run) {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()
	name, err := u.readEntry(ctx)
	if err != nil || name == "" {
		return
	}
	if apis, err := u.owner.Client.ListAPIs(ctx); err == nil && !apis.Has("deleteKubernetesCluster") {
		p.Stays = append(p.Stays, fmt.Sprintf("entry %s in CloudStack's UI: the role does not allow deleteKubernetesCluster", name))
		return
	}
	p.entryName = name
	p.Deletes = append(p.Deletes, fmt.Sprintf("entry %s in CloudStack's UI; no VM is changed", name))
}

// readEntry returns the name of the cluster's entry; "" without one.
func (u *run) readEntry(ctx context.Context) (string, error) {
	cs := u.owner
	ns, err := u.Cluster.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	project, err := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID}).ProjectID(ctx)
	if err != nil {
		return "", err
	}
	entries, err := cs.Client.Client.ListKubernetesClusters(ctx, project) // registration.Own needs no more
	if own := registration.Own(entries, string(ns.UID)); own != nil {
		u.entryID = own.ID
		return own.Name, err
	}
	return "", err
}

// unregister deletes the entry. The controller has ended, so nobody creates it again. A failure is a warning: CloudStack
// only displays the entry.
func (u *run) unregister(ctx context.Context, note engine.Note) error {
	u.Progress.Step("Entry %s in CloudStack's UI", u.plan.entryName)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		return u.owner.Client.DeleteExternalCluster(ctx, u.entryID)
	})
	if err != nil {
		u.Progress.Warn("the entry stays: %v; delete it in CloudStack's UI", err)
		u.Progress.Done("not deleted")
		return nil
	}
	note("deleted entry %s", u.plan.entryName)
	u.Progress.Done("deleted")
	return nil
}

// lease plans to free the lease. The controller cannot do so by itself: Helm deletes its roles together with its Deployment.
// Without a release it is the lease that an earlier run, which was stopped, has left: nobody renews it, and it has not expired.
func (p *Plan) lease(ctx context.Context, u *run) error {
	name := family.LeaseOfChart(p.manifest)
	l, err := lease.Get(ctx, u.Cluster.Kube, name)
	age, lasts, held := lease.Age(l, u.Clock)
	if err == nil && held && age <= lasts && (p.Revision > 0 || age >= lease.Alive) {
		p.leased = true
		p.Deletes = append(p.Deletes, fmt.Sprintf("holder of Lease %s, unless another controller renews it: the next controller can lead at once", name))
	}
	return nil // a lease that cannot be read expires by itself
}

// releaseLease frees the lease that a Pod of the release held. Its Pods have ended. A failure is a warning: a
// new controller then waits until the lease has expired.
func (u *run) releaseLease(ctx context.Context, note engine.Note) error {
	name := family.LeaseOfChart(u.plan.manifest)
	u.Progress.Step("Lease %s", name)
	released, err := lease.Free(ctx, u.Cluster.Kube, u.Clock, name)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		u.Progress.Warn("lease %s could not be released: %v; a new controller leads when it has expired", name, u.Cluster.Explain(err))
		u.Progress.Done("not released")
	case released:
		note("released lease %s", name)
		u.Progress.Done("released")
	default:
		u.Progress.Done("not held by this release")
	}
	return nil
}
