// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/event"
)

// lookForOrphans reports what the cluster's Services left behind, and removes it if that is asked for. Only what
// was found in two rounds counts: the list of Services may be older than CloudStack's.
func (lb *loadBalancer) lookForOrphans(ctx context.Context, since time.Time) {
	// Any version will do: the second round makes up for an old one.
	services, err := listServices(ctx, lb.deps.Kube)
	if err != nil {
		klog.ErrorS(err, "The Services could not be listed to look for orphans")
		return
	}
	living := map[string]bool{}
	for _, svc := range services {
		living[string(svc.UID)] = true
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
	lb.orphanCount.Set(float64(reported))
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

// sweepPeriod is how often tags of deleted rules are looked for. They harm nobody.
const sweepPeriod = time.Hour

// tagsToSweep lists what carries this cluster's tags, if it is time to. The drift round that follows reads the rules.
func (lb *loadBalancer) tagsToSweep(ctx context.Context) []loadbalancer.TaggedRules {
	now := lb.deps.Clock.Now()
	if !lb.swept.IsZero() && now.Sub(lb.swept) < sweepPeriod {
		return nil
	}
	lb.swept = now
	var out []loadbalancer.TaggedRules
	for _, project := range lb.projects() {
		tagged, err := lb.reconciler.TaggedRules(ctx, project)
		if err != nil {
			klog.ErrorS(err, "The tags of deleted load balancer rules could not be looked for", "project", project)
			continue
		}
		out = append(out, tagged)
	}
	return out
}

// sweepTags deletes the tags of rules that are gone. begun is after the tags were listed.
func (lb *loadBalancer) sweepTags(ctx context.Context, all []loadbalancer.TaggedRules, begun time.Time) {
	for _, tagged := range all {
		n, err := lb.reconciler.SweepTags(ctx, tagged, begun)
		if err != nil {
			klog.ErrorS(err, "The tags of deleted load balancer rules could not be deleted; it is tried again in an hour")
		}
		if n > 0 {
			klog.V(2).InfoS("Deleted the tags that CloudStack keeps of deleted load balancer rules", "rules", n)
		}
	}
}

// projects are the configured project and those that Services name.
func (lb *loadBalancer) projects() []string {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	return append([]string{""}, slices.Sorted(maps.Keys(lb.others))...)
}
