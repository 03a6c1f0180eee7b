// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
)

// commonClusterID is the framework's default for --cluster-name. Many clusters have it, so it identifies none.
const commonClusterID = "kubernetes"

// ClusterID returns the id of the cluster in CloudStack's tags: --cluster-id, else cluster-id of the cloud-config, else
// --cluster-name unless that is "kubernetes", the default that every cluster has, else the UID of namespace
// kube-system.
func ClusterID(flag, config, clusterName, kubeSystemUID string) string {
	if clusterName == commonClusterID {
		clusterName = ""
	}
	return cmp.Or(flag, config, clusterName, kubeSystemUID)
}

func (p *Provider) uid() string {
	return ptr.Deref(p.clusterUID.Load(), "")
}

// clusterID returns the ID of the cluster in tags. It is empty if only the UID identifies the cluster and was not read
// yet.
func (p *Provider) clusterID() string {
	return ClusterID(p.options.ClusterID, p.config.ClusterID, p.options.ClusterName, p.uid())
}

// clusterIDs returns the IDs of the cluster in tags: the current one, then former ones.
func (p *Provider) clusterIDs() []string {
	return append([]string{p.clusterID()}, p.config.FormerClusterIDs...)
}

// readClusterUID reads the UID of namespace kube-system if it is needed: as the ID of a cluster that has no other, or
// for the entry in CloudStack's UI. The UID is unique, so no cluster takes over resources of another one.
func (p *Provider) readClusterUID(ctx context.Context, kube kubernetes.Interface) error {
	if p.uid() != "" || p.clusterID() != "" && p.options.RegisterCluster == "" {
		return nil
	}
	ns, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the UID of namespace %s, the id of the cluster in CloudStack's tags: %w (allow it, "+
			"or set --cluster-id)", metav1.NamespaceSystem, err)
	}
	p.clusterUID.Store(new(string(ns.UID)))
	return nil
}

// awaitClusterUID calls readClusterUID until it succeeds: without the ID, the controller cannot recognise its own
// resources. It reports whether the UID was read before the context ended.
func (p *Provider) awaitClusterUID(ctx context.Context, kube kubernetes.Interface) bool {
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err := p.readClusterUID(ctx, kube)
		if err != nil {
			klog.ErrorS(err, "Services wait until the id of the cluster is known; trying again")
		}
		return err == nil, nil
	}) == nil
}

// maxClusterID leaves room in the reason of a network ACL item (255 characters) for the Service's UID and name.
const maxClusterID = 128

// checkClusterID returns an error if CloudStack's tags cannot hold the cluster's ID, or if orphans are to be removed
// and other clusters of the account may have the same ID: their resources would look like orphans here.
func (p *Provider) checkClusterID() error {
	id := p.clusterID()
	switch {
	case len(id) > maxClusterID || strings.TrimSpace(id) != id || strings.ContainsFunc(id, annotation.Unstorable):
		return fmt.Errorf("cluster-id: %q cannot be written into CloudStack's tags: want at most %d bytes of "+
			"printable text without emoji and without blanks at its ends (--cluster-id, cluster-id in the "+
			"cloud-config, or --cluster-name)", id, maxClusterID)
	case p.options.CleanOrphans && cmp.Or(p.options.ClusterID, p.config.ClusterID) == commonClusterID:
		return fmt.Errorf("--clean-orphans: the cluster id is %q, which other clusters may have too, and objects "+
			"of another cluster in this account or project would be deleted: give the cluster a name of its own with "+
			"--cluster-id or cluster-id in the cloud-config, or none", commonClusterID)
	}
	return nil
}
