// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// What a workload needs to work with new keys.
const (
	reloads  = "reloads"  // nothing: the controller takes them over by itself
	restart  = "restart"  // csccm can restart it
	recreate = "recreate" // somebody else must replace its Pods
	update   = "update"   // its Secret is a copy, which csccm does not write
)

// apart is how far apart the change of the Secret and the creation of a Pod must be, whose times have whole seconds.
const apart = 2 * time.Second

// Use is a workload that works with the keys.
type Use struct {
	secretusers.User
	PodCount int    `json:"pods"`
	Needs    string `json:"needs"`         // reloads, restart, recreate or update
	Why      string `json:"why,omitempty"` // csccm cannot restart it
}

// Others is what works with the keys of the Secret in this cluster.
type Others struct {
	Workloads   []Use              `json:"workloads"`
	Copies      []secretusers.Copy `json:"copies"`      // Secrets that hold the keys too
	NotLookedAt []string           `json:"notLookedAt"` // what csccm may not read
}

// look reads what works with the old keys.
func (r *run) look(ctx context.Context) (*Others, error) {
	var keys []string
	for i := range r.plan.ends {
		keys = append(keys, r.plan.ends[i].APIKey)
	}
	r.hide = append(r.hide, keys...)
	f, err := secretusers.Find(ctx, r.Cluster.Kube, r.secret.Namespace, r.secret.Name, credentials.SecretKey, keys)
	if err != nil {
		return nil, r.Cluster.Explain(err)
	}
	return judge(f, r.Release), nil
}

// judge says what each workload needs. It is a pure function.
func judge(f *secretusers.Found, release string) *Others {
	o := &Others{Workloads: []Use{}, Copies: f.Copies, NotLookedAt: f.NotRead}
	for _, u := range f.Users {
		use := Use{User: u, PodCount: len(u.Pods), Needs: restart}
		switch {
		case !slices.ContainsFunc(u.Pods, func(p *corev1.Pod) bool { return !cluster.InRelease(p.Labels, release) }):
			use.Needs = reloads
		case u.Kind == "Pod":
			use.Needs, use.Why = recreate, "nothing would create it again"
		case !slices.Contains([]string{"Deployment", "DaemonSet", "StatefulSet"}, u.Kind):
			use.Needs, use.Why = recreate, "csccm restarts no "+u.Kind
		}
		o.Workloads = append(o.Workloads, use)
	}
	for i := range f.Copies {
		for _, u := range f.Copies[i].Users {
			o.Workloads = append(o.Workloads, Use{User: u, PodCount: len(u.Pods), Needs: update})
		}
	}
	return o
}

// old returns how many Pods of a workload were created before the Secret was changed; a zero time is in the future.
func old(u *secretusers.User, changed time.Time) int {
	n := 0
	for _, p := range u.Pods {
		// Creation times are whole seconds: one of the same second is taken for older.
		if changed.IsZero() || !p.CreationTimestamp.After(changed) {
			n++
		}
	}
	return n
}

// breaks returns what would stop working without the old keys, where the Secret was changed at a time. restarts reports
// whether csccm restarts what it can.
func (o *Others) breaks(changed time.Time, restarts bool) []string {
	out := []string{}
	for i := range o.Workloads {
		u := &o.Workloads[i]
		n := old(&u.User, changed)
		if n == 0 || u.Needs == reloads || u.Needs == update || u.Needs == restart && restarts {
			continue
		}
		text := fmt.Sprintf("%s: %s read Secret %s before it was changed", u, count(n), u.Secret)
		if u.Why != "" {
			text += "; " + u.Why
		}
		out = append(out, text)
	}
	for i := range o.Copies {
		c := &o.Copies[i]
		text := fmt.Sprintf("Secret %s holds a copy of the old keys (%s), which csccm does not write", c, strings.Join(c.Keys, ", "))
		for j := range c.Users {
			text += map[bool]string{true: "; used by ", false: ", "}[j == 0] + c.Users[j].String()
		}
		out = append(out, text)
	}
	return out
}

// print lists the workloads and Secrets.
func (o *Others) print(b *strings.Builder, restarts bool) {
	if len(o.Workloads)+len(o.Copies) > 0 {
		b.WriteString("These keys are used by:\n")
	}
	outlook := map[string]string{
		reloads: "takes new keys over by itself", update: "needs new keys in that Secret, and a restart",
		recreate: "must be replaced by you: ", restart: "must be restarted (--restart-others)",
	}
	if restarts {
		outlook[restart] = "is restarted"
	}
	for i := range o.Workloads {
		u := &o.Workloads[i]
		fmt.Fprintf(b, "  - %s (%s, Secret %s): %s%s\n", u, count(u.PodCount), u.Secret, outlook[u.Needs], u.Why)
	}
	for i := range o.Copies {
		fmt.Fprintf(b, "  - Secret %s (%s): a copy, which csccm does not write\n", &o.Copies[i], strings.Join(o.Copies[i].Keys, ", "))
	}
	for _, what := range o.NotLookedAt {
		fmt.Fprintf(b, "Not looked at: %s\n", what)
	}
}

func count(pods int) string { return english.Plural(pods, "Pod", "") }

// toRestart returns what csccm can restart and has Pods of before the Secret was changed.
func (o *Others) toRestart(changed time.Time) (out []*Use) {
	for i := range o.Workloads {
		if u := &o.Workloads[i]; u.Needs == restart && old(&u.User, changed) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// restart replaces the Pods of a workload that does not take the new keys over by itself. If they do not start, the old keys
// stay.
func (r *run) restart(ctx context.Context, u *Use, note engine.Note) error {
	err := r.replace(ctx, u)
	if err == nil {
		note("restarted %s", u)
		r.plan.Restarted = append(r.plan.Restarted, u.String())
	}
	if err == nil || ctx.Err() != nil || r.Finish {
		return err
	}
	if kerr := r.keep(ctx); kerr != nil {
		err = fmt.Errorf("%w; and %w", err, kerr)
	}
	return report.Remedied(fmt.Errorf("%w; the keys of user %q still work", err, r.plan.From),
		"remove the cause, then end the old keys: csccm rotate-keys --finish --restart-others")
}

// replace replaces the Pods, and waits until those of before are gone.
func (r *run) replace(ctx context.Context, u *Use) error {
	// A Pod that is created from here on must not have the time of the change.
	if _, err := engine.Poll(ctx, r.Clock, apart, apart, func() (bool, error) { return r.Clock.Since(r.changed) >= apart, nil }); err != nil {
		return err
	}
	w := r.Waiter()
	w.Of = &rollout.Target{Kind: u.Kind, Namespace: u.Namespace, Name: u.Name}
	if err := w.Replace(ctx); err != nil {
		return err
	}
	left := 0
	gone, err := engine.Poll(ctx, r.Clock, proofPoll, cmp.Or(r.RolloutTimeout, rollout.DefaultTimeout), func() (bool, error) {
		pods, err := r.Cluster.Kube.CoreV1().Pods(u.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, r.Cluster.Explain(err)
		}
		left = 0
		for _, now := range secretusers.Of(pods.Items, u.Namespace, u.Secret) {
			if now.String() == u.String() {
				left = old(&now, r.changed)
			}
		}
		return left == 0, nil
	})
	if err == nil && !gone {
		err = fmt.Errorf("%s: after its restart %s of before the change of the Secret still run", u, count(left))
	}
	return err
}
