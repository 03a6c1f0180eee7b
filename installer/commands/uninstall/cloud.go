// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/registration"
)

// cloud plans what is removed from CloudStack, or names what stays there.
func (u *run) cloud(ctx context.Context) error {
	made, err := credentials.ReadMade(ctx, u.Cluster.Kube, u.Cluster.Namespace)
	if err != nil {
		return err
	}
	var unusable *report.Error
	u.owner, err = cloud.OfSecret(ctx, u.Cluster)
	switch {
	case err == nil:
		u.closers = append(u.closers, u.owner.Close)
		u.entry(ctx)
	case !errors.As(err, &unusable) || unusable.Code != report.ExitUsage: // there may be keys that others have too
		return err
	}
	switch {
	case len(made.Objects) == 0:
		u.keep("the controller's user and keys in CloudStack: no list says that csccm made them")
		return nil
	case !u.DeleteUser:
		for i := range made.Objects {
			u.keep("%s in CloudStack, made by csccm (--delete-user removes it)", made.Objects[i].String())
		}
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
	u.closers = append(u.closers, end)
	removal, err := credentials.PlanRemoval(ctx, admin, made)
	if err != nil {
		return err
	}
	u.ends = slices.Contains(removal.APIKeys, key)
	for _, text := range removal.Stays {
		u.keep("%s", text)
	}
	for i := range removal.Steps {
		s := &removal.Steps[i]
		u.delete(s.Text, func(ctx context.Context) error {
			return engine.Shielded(ctx, func(ctx context.Context) error { return s.Do(ctx, admin, u.Cluster) })
		})
	}
	return nil
}

// entryTimeout limits what is read of the entry in CloudStack's UI: a CloudStack that does not answer delays no uninstall.
const entryTimeout = 10 * time.Second

// entry plans what happens to the cluster's entry in CloudStack's UI, which the controller keeps (chart value
// registerCluster). An entry that cannot be read or deleted is no reason to keep the controller.
func (u *run) entry(ctx context.Context) {
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
	u.delete("entry "+own.Name+" in CloudStack's UI; no VM is changed", func(ctx context.Context) error {
		err := engine.Shielded(ctx, func(ctx context.Context) error {
			return cs.Client.Do(ctx, "deleteKubernetesCluster", cloudstack.Params{"id": own.ID, "cleanup": "false"}) // none of its VMs
		})
		if err != nil {
			u.Progress.Warn("the entry stays: %v; delete it in CloudStack's UI", err)
		}
		return nil
	})
}
