// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/event"
)

// lookForOrphans reports what the cluster's Services left behind, and removes it if that is asked for. Only what
// was found in two rounds counts: the list of Services may be older than CloudStack's.
func (lb *loadBalancer) lookForOrphans(ctx context.Context, since time.Time) {
	// Any version will do: the second round makes up for an old one.
	services, err := lb.deps.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		klog.ErrorS(err, "The Services could not be listed to look for orphans")
		return
	}
	living := map[string]bool{}
	for i := range services.Items {
		living[string(services.Items[i].UID)] = true
	}
	found, err := lb.reconciler.Orphans(ctx, since, func(uid string) bool { return living[uid] })
	if err != nil {
		klog.ErrorS(err, "Orphans could not be looked for")
		return
	}
	last := lb.orphans
	lb.orphans = map[string]bool{}
	reported := 0
	cleaned := map[string]bool{}
	for _, o := range found {
		key := o.Kind + " " + o.ID
		lb.orphans[key] = true
		if !last[key] {
			continue
		}
		reported++
		lb.reportOrphan(o)
		if lb.deps.CleanOrphans && !cleaned[o.UID+o.ID] && lb.gone(ctx, o) {
			lb.cleanOrphan(ctx, o)
			cleaned[o.UID+o.ID] = true
		}
	}
	lb.metrics.orphans.Set(float64(reported))
}

// orphanObject is the Service that was, for Events.
func orphanObject(o observe.Orphan) *corev1.ObjectReference {
	namespace, name, ok := strings.Cut(o.Service, "/")
	if !ok {
		namespace, name = metav1.NamespaceSystem, "unknown"
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name, UID: types.UID(o.UID)}
}

func (lb *loadBalancer) reportOrphan(o observe.Orphan) {
	what := o.Kind + " " + o.ID
	if o.IP != "" {
		what += " (" + o.IP + ")"
	}
	text := " in CloudStack was made for this Service, which is gone; delete it, or let the controller do so (--clean-orphans)"
	if id := lb.deps.ClusterID(); id == commonClusterID {
		text = fmt.Sprintf(" in CloudStack was made for this Service, which this cluster does not have; it may be that of another cluster called %q, so give each a name of its own (--cluster-id) before anything is deleted", id)
	}
	lb.deps.Recorder.Event(orphanObject(o), corev1.EventTypeWarning, string(event.Orphan), what+text)
}

// gone asks the API server itself whether the Service is not there.
func (lb *loadBalancer) gone(ctx context.Context, o observe.Orphan) bool {
	ref := orphanObject(o)
	svc, err := lb.deps.Kube.CoreV1().Services(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && string(svc.UID) != o.UID
}

func (lb *loadBalancer) cleanOrphan(ctx context.Context, o observe.Orphan) {
	ref := orphanObject(o)
	end, err := lb.reconciler.Turn(ctx, o.UID)
	if err != nil {
		return
	}
	defer end()
	err = lb.reconciler.CleanOrphan(ctx, o, func(n plan.Notice) {
		lb.deps.Recorder.Event(ref, corev1.EventTypeNormal, string(n.Reason), n.Message)
	})
	if err != nil {
		klog.ErrorS(err, "An orphan could not be removed; it is tried again", "orphan", fmt.Sprintf("%s %s", o.Kind, o.ID))
	}
}
