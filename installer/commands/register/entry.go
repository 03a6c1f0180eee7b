// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package register shows a cluster in CloudStack's UI and takes it out again: the work of the controller's option
// registerCluster, on demand. No VM is changed.
package register

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/plan"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/registration"
)

// Facts are what both commands read first.
type Facts struct {
	ClusterID string // UID of namespace kube-system
	Project   string // id; "" for the account of the keys
	Entries   []cloudstack.KubernetesCluster
	KeptAs    string // the controller's option registerCluster

	inventory *inventory.Inventory
}

// Own returns the cluster's entry; nil without one.
func (f *Facts) Own() *cloudstack.KubernetesCluster { return registration.Own(f.Entries, f.ClusterID) }

// Read reads the entries of the account or project, and what tells the cluster's own.
func Read(ctx context.Context, c *cluster.Cluster, cs *cloud.Cloud, release string) (*Facts, error) {
	options, _, err := plan.Options(ctx, c.Kube, c.Namespace, release)
	if err != nil {
		return nil, c.Explain(err)
	}
	ns, err := c.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, c.Explain(err)
	}
	f := &Facts{
		ClusterID: string(ns.UID), KeptAs: options.RegisterCluster,
		inventory: inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone}),
	}
	if f.ClusterID == "" {
		return nil, fmt.Errorf("namespace %s has no UID, which tells this cluster's entry from others", metav1.NamespaceSystem)
	}
	if f.Project, err = f.inventory.ProjectID(ctx); err != nil {
		return nil, err
	}
	f.Entries, err = cs.Client.ListKubernetesClusters(ctx, f.Project)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil, refused(cs, registration.Commands, err)
	}
	return f, err
}

// Allowed returns an error if the role is known not to allow one of the commands.
func Allowed(ctx context.Context, cs *cloud.Cloud, commands []string) error {
	apis, err := cs.Client.ListAPIs(ctx)
	if err != nil {
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return nil // unknown: the calls show it
		}
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(commands), func(c string) bool { _, ok := apis[c]; return ok })
	if len(missing) > 0 {
		return refused(cs, missing, nil)
	}
	return nil
}

func refused(cs *cloud.Cloud, commands []string, err error) error {
	return &report.Error{
		What: fmt.Sprintf("nothing was changed: the keys of %s may not call %s", cs.From, strings.Join(commands, ", ")),
		Fix: "have an administrator allow these commands in the role of the keys' account, or name a file with the keys of a user of the " +
			"same account or project who may call them with --cloud-config; without CloudStack Kubernetes Service (setting " +
			"cloud.kubernetes.service.enabled), and before CloudStack 4.19, nobody may",
		Err: err, Code: report.ExitCheckFailed,
	}
}
