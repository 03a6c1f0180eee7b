// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// What a workload needs to work with new keys.
const (
	reloads = "reloads" // nothing: the controller takes them over by itself
	restart = "restart" // a restart: it may have read them once, at its start
	update  = "update"  // its Secret is a copy, which csccm does not write
)

// needsText says the same for people.
var needsText = map[string]string{
	reloads: "takes new keys over by itself", restart: "must be restarted", update: "needs new keys in that Secret, and a restart",
}

// Use is a workload that works with the keys.
type Use struct {
	secretusers.User
	PodCount int    `json:"pods"`
	Needs    string `json:"needs"` // reloads, restart or update
}

// Others is what works with the keys of the Secret in this cluster.
type Others struct {
	Workloads   []Use              `json:"workloads"`
	Copies      []secretusers.Copy `json:"copies"`      // Secrets that hold the keys too
	NotLookedAt []string           `json:"notLookedAt"` // what csccm may not read
}

// look reads what works with the old keys.
func (r *run) look(ctx context.Context) (Others, error) {
	keys := cloudapi.Names(r.plan.ends, func(u *cloudapi.User) string { return u.APIKey })
	r.hide = append(r.hide, keys...)
	f, err := secretusers.Find(ctx, r.Cluster.Kube, r.Secret.Namespace, r.Secret.Name, credentials.SecretKey, keys)
	if err != nil {
		return Others{}, r.Cluster.Explain(err)
	}
	return judge(f, r.Release), nil
}

// judge says what each workload needs.
func judge(f *secretusers.Found, release string) Others {
	o := Others{Workloads: []Use{}, Copies: f.Copies, NotLookedAt: f.NotRead}
	for _, u := range f.Users {
		needs := reloads
		if slices.ContainsFunc(u.Pods, func(p *corev1.Pod) bool { return !cluster.InRelease(p.Labels, release) }) {
			needs = restart
		}
		o.Workloads = append(o.Workloads, Use{u, len(u.Pods), needs})
	}
	for i := range f.Copies {
		for _, u := range f.Copies[i].Users {
			o.Workloads = append(o.Workloads, Use{u, len(u.Pods), update})
		}
	}
	return o
}

// inUse returns what would stop working without the old keys. changed is when the Secret was changed; zero is in the future.
func (o *Others) inUse(changed time.Time) []string {
	out := []string{}
	for i := range o.Workloads {
		u, old := &o.Workloads[i], 0
		for _, p := range u.Pods {
			// Creation times are whole seconds: one of the same second is taken for older.
			if changed.IsZero() || !p.CreationTimestamp.After(changed) {
				old++
			}
		}
		if old > 0 && u.Needs == restart {
			out = append(out, fmt.Sprintf("%s: %s read Secret %s before it was changed", u, count(old), u.Secret))
		}
	}
	for i := range o.Copies {
		c := &o.Copies[i]
		out = append(out, fmt.Sprintf("Secret %s holds a copy of the old keys (%s), which csccm does not write", c, strings.Join(c.Keys, ", ")))
	}
	return out
}

func count(pods int) string { return english.Plural(pods, "Pod", "") }
