// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
)

// What a workload needs to use new keys.
const (
	reloads = "reloads" // nothing: the controller reloads the keys
	restart = "restart" // a restart: the workload may have read the keys only when it started
	update  = "update"  // new keys in its Secret, which is a copy that csccm does not write
)

// needsText describes these needs in messages.
var needsText = map[string]string{
	reloads: "reloads new keys automatically",
	restart: "must be restarted",
	update:  "needs new keys in that Secret, and a restart",
}

// look finds the workloads and Secrets that use the old keys.
func (r *run) look(ctx context.Context) (*access.Found, error) {
	keys := cloudapi.Names(r.plan.ends, func(u *cloudapi.User) string { return u.APIKey })
	r.hide = append(r.hide, keys...)
	f, err := r.Secret.Users(ctx, r.Cluster.Kube, keys)
	if err != nil {
		return nil, err
	}

	judge(f, r.Release)
	return f, nil
}

// judge sets what each workload needs, and adds the workloads that use a copy of the Secret.
func judge(f *access.Found, release string) {
	for i := range f.Users {
		u := &f.Users[i]
		u.Needs = reloads
		if slices.ContainsFunc(u.Pods, func(p *corev1.Pod) bool { return !cluster.InRelease(p.Labels, release) }) {
			u.Needs = restart
		}
	}

	for _, c := range f.Copies {
		for _, u := range c.Users {
			u.Needs = update
			f.Users = append(f.Users, u)
		}
	}
}

// inUse returns what would stop working without the old keys. changed is when the Secret got the new keys; zero means
// that it still holds the old keys.
func inUse(f *access.Found, changed time.Time) []string {
	out := []string{}
	for i := range f.Users {
		u, old := &f.Users[i], 0 // old counts the Pods that may have read the old keys
		for _, p := range u.Pods {
			// Creation times have a resolution of one second. A Pod created in the second of the change may have read
			// the old keys.
			if changed.IsZero() || !p.CreationTimestamp.After(changed) {
				old++
			}
		}
		if old > 0 && u.Needs == restart {
			out = append(out, fmt.Sprintf("%s: %s read Secret %s before it was changed", u, count(old), u.Secret))
		}
	}

	for _, c := range f.Copies {
		out = append(out, fmt.Sprintf(
			"Secret %s holds a copy of the old keys (%s), which csccm does not write", &c, strings.Join(c.Keys, ", "),
		))
	}

	return out
}

func count(pods int) string { return report.Count(pods, "Pod") }
