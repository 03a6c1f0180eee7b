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
	cs := u.owner
	ns, err := u.Cluster.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return
	}
	project, err := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID}).ProjectID(ctx)
	if err != nil {
		return
	}
	entries, err := cs.Client.Client.ListKubernetesClusters(ctx, project) // registration.Own needs no more
	own := registration.Own(entries, string(ns.UID))
	if err != nil || own == nil {
		return
	}
	what := fmt.Sprintf("entry %s in CloudStack's UI", own.Name)
	if apis, err := cs.Client.ListAPIs(ctx); err == nil && !apis.Has("deleteKubernetesCluster") {
		p.Stays = append(p.Stays, what+": the role does not allow deleteKubernetesCluster")
		return
	}
	p.delete("entry in CloudStack's UI", func(ctx context.Context, note engine.Note) error {
		u.Progress.Step("Entry %s in CloudStack's UI", own.Name)
		err := engine.Shielded(ctx, func(ctx context.Context) error { return cs.Client.DeleteExternalCluster(ctx, own.ID) })
		if err != nil { // a warning: CloudStack only displays the entry
			u.Progress.Warn("the entry stays: %v; delete it in CloudStack's UI", err)
			u.Progress.Done("not deleted")
			return nil
		}
		note("deleted entry %s", own.Name)
		u.Progress.Done("deleted")
		return nil
	}, what+"; no VM is changed")
}

// lease plans to free the lease. The controller cannot do so by itself: Helm deletes its roles together with its Deployment.
// Without a release it is the lease that an earlier run, which was stopped, has left: nobody renews it, and it has not expired.
func (p *Plan) lease(ctx context.Context, u *run) error {
	name := family.LeaseOfChart(p.manifest)
	l, err := lease.Get(ctx, u.Cluster.Kube, name)
	age, lasts, held := lease.Age(l, u.Clock)
	if err == nil && held && age <= lasts && (p.Revision > 0 || age >= lease.Alive) {
		p.delete("lease", func(ctx context.Context, note engine.Note) error { return u.releaseLease(ctx, name, note) },
			fmt.Sprintf("holder of Lease %s, unless another controller renews it: the next controller can lead at once", name))
	}
	return nil // a lease that cannot be read expires by itself
}

// releaseLease frees the lease that a Pod of the release held. Its Pods have ended. A failure is a warning: a
// new controller then waits until the lease has expired.
func (u *run) releaseLease(ctx context.Context, name lease.Name, note engine.Note) error {
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
