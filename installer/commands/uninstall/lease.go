// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine"
)

// A holder that is alive renews its lease every two seconds by default.
const (
	leasePoll  = time.Second
	leasePolls = 5
)

// podLabels are those of the Pods of a release.
func podLabels(release string) labels.Set {
	return labels.Set{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": release}
}

// podSelector selects the Pods of a release.
func podSelector(release string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: podLabels(release).String()}
}

// lease reads whether a Pod of the release holds its lease. The controller cannot release it by itself: Helm
// deletes its roles together with its Deployment.
func (p *Plan) lease(ctx context.Context, u *run) error {
	if p.Revision == 0 {
		p.staleLease(ctx, u)
		return nil
	}
	name := takeover.LeaseOf(p.manifest)
	pods, err := u.Cluster.Kube.CoreV1().Pods(p.Namespace).List(ctx, podSelector(p.Release))
	if err != nil {
		return u.Cluster.Explain(err)
	}
	u.sawPods(pods.Items)
	l, err := u.Cluster.Kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return nil //nolint:nilerr // nothing to announce; the step says what is in the way
	}
	if u.hosts[hostOf(l)] {
		p.Deletes = append(p.Deletes, fmt.Sprintf("holder of Lease %s: the next controller can lead at once", name))
	}
	return nil
}

// sawPods remembers under which names the Pods hold the lease: a Pod's host name is the Pod's name, or its
// node's with hostNetwork.
func (u *run) sawPods(pods []corev1.Pod) {
	for i := range pods {
		u.hosts[pods[i].Name] = true
		if pods[i].Spec.HostNetwork && pods[i].Spec.NodeName != "" {
			u.hosts[pods[i].Spec.NodeName], u.nodes[pods[i].Spec.NodeName] = true, true
		}
	}
}

// hostOf returns the host name in the holder's identity HOSTNAME_UUID; "" if nobody holds the lease.
func hostOf(l *coordinationv1.Lease) string {
	holder := ptr.Deref(l.Spec.HolderIdentity, "")
	if i := strings.LastIndexByte(holder, '_'); i > 0 {
		return holder[:i]
	}
	return holder
}

// releaseLease frees the lease that a Pod of the release held. Its Pods have ended. A failure is a warning: a
// new controller then waits until the lease has expired.
func (u *run) releaseLease(ctx context.Context, note engine.Note) error {
	if len(u.hosts) == 0 {
		return nil
	}
	name := takeover.LeaseOf(u.plan.manifest)
	u.Progress.Step("Lease %s", name)
	released, err := u.freeLease(ctx, name)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		u.Progress.Warn("lease %s could not be released: %v; a new controller leads when it has expired", name, err)
		u.Progress.Done("not released")
	case released:
		note("released lease %s", name)
		u.Progress.Done("released")
	default:
		u.Progress.Done("not held by this release")
	}
	return nil
}

func (u *run) freeLease(ctx context.Context, name takeover.LeaseName) (released bool, err error) {
	leases := u.Cluster.Kube.CoordinationV1().Leases(name.Namespace)
	first, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !u.hosts[hostOf(first)] {
		return false, nil
	}
	if err != nil {
		return false, u.Cluster.Explain(err)
	}
	// With hostNetwork a controller of somebody else on the same node has the same host name: it renews.
	for range u.polls(first) {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-u.Clock.After(leasePoll):
		}
		l, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, u.Cluster.Explain(err)
		}
		if !sameHold(l, first) {
			return false, nil
		}
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		l, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if released = sameHold(l, first); !released {
			return nil
		}
		l = l.DeepCopy()
		// As client-go's election releases a lease.
		now := metav1.NewMicroTime(u.Clock.Now())
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime, l.Spec.AcquireTime = ptr.To(""), ptr.To[int32](1), &now, &now
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return released && err == nil, u.Cluster.Explain(err)
}

// polls is how often the lease is read before its holder counts as gone.
func (u *run) polls(l *coordinationv1.Lease) int {
	if u.nodes[hostOf(l)] {
		return leasePolls
	}
	return 0 // a Pod that has ended
}

// sameHold reports whether nobody renewed or took the lease in between.
func sameHold(a, b *coordinationv1.Lease) bool {
	return ptr.Deref(a.Spec.HolderIdentity, "") == ptr.Deref(b.Spec.HolderIdentity, "") && a.Spec.RenewTime.Equal(b.Spec.RenewTime)
}
