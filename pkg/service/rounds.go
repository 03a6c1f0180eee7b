// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// sweepPeriod is the time between sweeps of tags of deleted rules. These tags harm nobody.
const sweepPeriod = time.Hour

// runRounds looks for objects that deleted Services have left in CloudStack, once at the start and in each drift round,
// until the context ends.
func (c *Controller) runRounds(ctx context.Context) {
	c.findProjects(ctx)
	keys := c.lookForOrphans(ctx, c.Clock.Now(), true)
	for {
		for _, k := range ordered(slices.Values(keys)) {
			c.queue.Add(k)
		}
		if c.DriftPeriod == 0 {
			return
		}

		// Rounds begin 0.8 to 1.0 periods apart, so that the rounds of several clusters do not coincide.
		select {
		case <-ctx.Done():
			return
		case <-c.Clock.After(c.DriftPeriod * time.Duration(80+c.Clock.Now().UnixMilli()%21) / 100):
		}
		keys = c.Round(ctx)
	}
}

// Round begins a drift round. It returns the Services to compare with CloudStack, and those to clean up. Reads from
// before the round are not trusted.
func (c *Controller) Round(ctx context.Context) []Key {
	begun := c.Clock.Now()
	c.sweepTags(ctx, begun)
	keys := c.lookForOrphans(ctx, begun, false)

	c.mu.Lock()
	for k, s := range c.states {
		if s.served {
			s.since, s.overwrites = begun, 0
			keys = append(keys, k)
		}
	}
	c.mu.Unlock()
	c.rounds.Observe(c.Clock.Since(begun).Seconds())
	return keys
}

// lookForOrphans reports objects with the cluster's tags that no existing Service has. It returns the keys to be
// cleaned up. atStart means to look also for releases that an earlier process has not finished.
func (c *Controller) lookForOrphans(ctx context.Context, since time.Time, atStart bool) (keys []Key) {
	found := map[Key][]observe.Orphan{}
	total, complete, looked := 0, true, sets.New[string]()
	services, _ := c.Services() // without the list, each orphan counts as one of a deleted Service
	for _, project := range c.knownProjects() {
		// Services may name a project by its name, and tags by its id.
		id, err := c.inventory(project).ProjectID(ctx)
		var list []observe.Orphan
		if err == nil {
			if looked.Has(id) {
				continue
			}
			looked.Insert(id)
			list, err = c.reconciler.Orphans(ctx, id, since, atStart)
		}
		switch {
		case project != "" && unknownProject(err): // a Service that names this project is refused anyway
			c.projects.Remove(project)
		case err != nil:
			klog.ErrorS(err, "Cannot look for orphans", "project", project)
			complete = false
		}

		for _, o := range list {
			at := slices.IndexFunc(services, func(svc *corev1.Service) bool { return svc.UID == types.UID(o.UID) })
			if at >= 0 { // the Service exists, and has neither records nor a finalizer
				keys = append(keys, c.adopt(services[at]))
				continue
			}
			total++
			svc := formerService(o)
			c.reportOrphan(svc, o)
			found[KeyOf(svc)] = append(found[KeyOf(svc)], o)
		}
	}

	if complete {
		c.orphanCount.Set(float64(total))
	}

	if !c.CleanOrphans || c.Policy != "" && c.Policy != plan.PolicyApply {
		return keys
	}

	for k, list := range found {
		if c.remember(ctx, list) {
			keys = append(keys, k)
		}
	}
	return keys
}

// adopt makes the controller clean up after an existing Service that has neither records nor a finalizer, but objects
// in CloudStack.
func (c *Controller) adopt(svc *corev1.Service) Key {
	k := KeyOf(svc)
	c.mu.Lock()
	c.stateOf(k).touched = true
	c.mu.Unlock()
	c.learn(svc)
	return k
}

// formerService returns the Service that had an orphan, as far as the orphan shows it. An address that was left to
// Services which have left it as well has a Service of its own.
func formerService(o observe.Orphan) *corev1.Service {
	svc := &corev1.Service{}
	svc.UID = types.UID(cmp.Or(o.UID, "unused "+o.ID))
	svc.Namespace, svc.Name = metav1.NamespaceSystem, "unknown"
	if namespace, name, ok := strings.Cut(o.Service, "/"); ok {
		svc.Namespace, svc.Name = namespace, name
	}
	return svc
}

// reportOrphan writes an Event about an orphan.
func (c *Controller) reportOrphan(of *corev1.Service, o observe.Orphan) {
	what := o.Kind + " " + o.ID
	if o.IP != "" {
		what += " (" + o.IP + ")"
	}
	c.Recorder.Event(of, corev1.EventTypeWarning, string(Orphan),
		what+
			" in CloudStack was created for this Service, which no longer exists; delete it, or let the controller do "+
			"so (--clean-orphans)")
}

// remember makes the controller clean up after a Service that no longer exists, as if its deletion had just been seen.
// found is what CloudStack has of it. It returns false if the Service exists after all.
func (c *Controller) remember(ctx context.Context, found []observe.Orphan) bool {
	svc := formerService(found[0])
	if !c.isDeleted(ctx, svc.Namespace, svc.Name, svc.UID) {
		return false
	}

	svc.Annotations = map[string]string{annotation.Project: found[0].Project}
	var records annotation.Records
	known := sets.New("")
	for _, o := range found {
		if o.Keep {
			svc.Annotations[annotation.KeepIP] = "true"
		}
		if !known.Has(o.AddressID) {
			known.Insert(o.AddressID)
			r := annotation.AddressRecord{ID: o.AddressID, IP: o.IP, ProjectID: o.Project}
			r.NetworkID, r.Internal = plan.ParseInternalID(o.AddressID)
			records.Addresses = append(records.Addresses, r)
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stateOf(KeyOf(svc)); s.version == nil {
		s.version, s.deleted = c.version(svc), true
		s.spec.Records = records
	}
	return true
}

// sweepTags deletes the tags of deleted load balancer rules, which CloudStack keeps, if the last sweep was long enough
// ago.
func (c *Controller) sweepTags(ctx context.Context, now time.Time) {
	if now.Sub(c.swept) < sweepPeriod {
		return
	}
	if !c.swept.IsZero() {
		c.findProjects(ctx) // runRounds has done so at the start
	}

	c.swept = now
	for _, project := range c.knownProjects() {
		id, err := c.inventory(project).ProjectID(ctx)
		if err == nil {
			err = c.reconciler.SweepTags(ctx, id)
		}
		if err != nil {
			klog.ErrorS(err,
				"The tags of deleted load balancer rules could not be deleted; it is tried again in an hour", "project",
				project)
		}
	}
}

// findProjects finds the projects that have tags of this cluster. There may be no Service left that names them.
func (c *Controller) findProjects(ctx context.Context) {
	found, err := c.reconciler.TaggedProjects(ctx)
	if err != nil {
		klog.ErrorS(err,
			"Cannot look for projects with objects of this cluster; it is tried again in an hour")
		return
	}
	c.tagged = found
}

// knownProjects returns the configured project, those of Services with an address, those that Services have named
// lately, and those with tags of the cluster.
func (c *Controller) knownProjects() []string {
	names := sets.New("")
	services, _ := c.Services() // without the list, no Service names a project
	for _, svc := range services {
		if hasRecords(svc) {
			names.Insert(strings.TrimSpace(svc.Annotations[annotation.Project]))
		}
	}

	for _, p := range c.projects.Keys() {
		names.Insert(fmt.Sprint(p))
	}
	return sets.List(names.Insert(c.tagged...))
}
