// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// commonClusterID is the framework's default for --cluster-name. It was the id of every cluster that was given none.
const commonClusterID = "kubernetes"

// ClusterID returns the name of the cluster in CloudStack's tags: --cluster-id, else cluster-id of the
// cloud-config, else --cluster-name unless that is "kubernetes", the default that every cluster has, else the UID
// of namespace kube-system. Without that UID (it could not be read) the old default "kubernetes" remains.
func ClusterID(flag, config, clusterName, kubeSystemUID string) string {
	if clusterName == commonClusterID {
		clusterName = ""
	}
	return cmp.Or(flag, config, clusterName, kubeSystemUID, commonClusterID)
}

// OwnClusterTag reports whether a cluster tag names the cluster with this id. Versions before the UID of kube-system
// became the default wrote "kubernetes" for every cluster without an id. Such a tag counts only where the tagged
// Service UID is of this cluster.
func OwnClusterTag(tag, id string, ownServiceUID bool) bool {
	return tag != "" && (tag == id || tag == commonClusterID && ownServiceUID)
}

// clusterID names the cluster in tags.
func (p *Provider) clusterID() string {
	return ClusterID(p.options.ClusterID, p.config.ClusterID, p.options.ClusterName, p.clusterUID)
}

// needsClusterUID reports whether nothing but the cluster itself can tell its id. The entry in CloudStack's UI always names
// the cluster by the UID.
func (p *Provider) needsClusterUID() bool {
	return p.clusterUID == "" && (p.clusterID() == commonClusterID || p.options.RegisterCluster != "")
}

// readClusterUID reads the UID of namespace kube-system where it is needed. Two clusters never have the same one, so
// that none takes what belongs to another for its own. A controller that may not read the namespace goes on as
// "kubernetes", the id that clusters had before.
func (p *Provider) readClusterUID(ctx context.Context, kube kubernetes.Interface) error {
	if !p.needsClusterUID() {
		return nil
	}
	ns, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		klog.ErrorS(err, "The cluster has no id of its own in CloudStack's tags; allow the controller to get namespace kube-system, or set --cluster-id", "clusterID", commonClusterID)
		return nil
	case err != nil:
		return fmt.Errorf("read the UID of namespace %s, the cluster's id: %w", metav1.NamespaceSystem, err)
	}
	p.clusterUID = string(ns.UID)
	return nil
}

// awaitClusterUID is readClusterUID for a controller that starts: nothing can be decided before the id is known.
func (p *Provider) awaitClusterUID(ctx context.Context, kube kubernetes.Interface) {
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err := p.readClusterUID(ctx, kube)
		if err != nil {
			klog.ErrorS(err, "It is tried again")
		}
		return err == nil, nil
	})
	if p.options.CleanOrphans && p.clusterID() == commonClusterID {
		klog.ErrorS(nil, "--clean-orphans has no effect: the cluster has no id of its own, and what another cluster made in this account or project would be removed; set --cluster-id")
		p.options.CleanOrphans = false
	}
}

// maxClusterID leaves room in the reason of a network ACL item (255 characters) for the Service's UID and name.
const maxClusterID = 128

// checkClusterID refuses a name that CloudStack has no place for, and the removal of orphans by a name that other
// clusters of the account may have, too: what they made would be orphans here.
func (p *Provider) checkClusterID() error {
	id := p.clusterID()
	odd := func(r rune) bool { return unicode.IsControl(r) || r > 0xFFFF || r == unicode.ReplacementChar }
	switch {
	case len(id) > maxClusterID || strings.TrimSpace(id) != id || strings.ContainsFunc(id, odd):
		return fmt.Errorf("cluster-id: %q cannot be written into CloudStack's tags: want at most %d bytes of printable text without emoji and without blanks at its ends (--cluster-id, cluster-id in the cloud-config, or --cluster-name)", id, maxClusterID)
	case p.options.CleanOrphans && (p.options.ClusterID == commonClusterID || p.config.ClusterID == commonClusterID):
		return fmt.Errorf("--clean-orphans: the cluster id is %q, which other clusters may have too, and what another one made in this account or project would be removed: give the cluster a name of its own with --cluster-id or cluster-id in the cloud-config, or none", commonClusterID)
	}
	return nil
}
