// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// What a workload needs to work with new keys.
const (
	reloads  = "reloads"  // nothing: the controller takes them over by itself
	restart  = "restart"  // csccm can restart it
	recreate = "recreate" // somebody else must replace its Pods
	update   = "update"   // its Secret is a copy, which csccm does not write
)

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

// facts is what Others follows from.
type facts struct {
	namespace, secret, release string
	pods                       []corev1.Pod // of the namespaces of the Secret and of the copies
	copies                     []secretusers.Copy
	notLookedAt                []string
}

// judge returns what works with the keys, and what it needs. It is a pure function.
func (f *facts) judge() *Others {
	o := &Others{Workloads: []Use{}, Copies: append([]secretusers.Copy{}, f.copies...), NotLookedAt: append([]string{}, f.notLookedAt...)}
	for _, u := range secretusers.Of(f.pods, f.namespace, f.secret) {
		use := Use{User: u, PodCount: len(u.Pods), Needs: restart}
		switch {
		case !slices.ContainsFunc(u.Pods, func(p secretusers.Pod) bool { return !cluster.InRelease(p.Labels, f.release) }):
			use.Needs = reloads // the release's own controller takes changed keys over
		case u.Kind == "Pod":
			use.Needs, use.Why = recreate, "nothing would create it again"
		case !slices.Contains([]string{"Deployment", "DaemonSet", "StatefulSet"}, u.Kind):
			use.Needs, use.Why = recreate, "csccm restarts no "+u.Kind
		}
		o.Workloads = append(o.Workloads, use)
	}
	for _, c := range f.copies {
		if c.Namespace == f.namespace && c.Name == f.secret {
			continue // other data of the Secret itself
		}
		for _, u := range secretusers.Of(f.pods, c.Namespace, c.Name) {
			o.Workloads = append(o.Workloads, Use{User: u, PodCount: len(u.Pods), Needs: update})
		}
	}
	return o
}

// old returns how many Pods of a workload were created before the Secret was changed; a zero time is in the future.
func (u *Use) old(changed time.Time) int {
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
		n := u.old(changed)
		if n == 0 || u.Needs == reloads || u.Needs == update || u.Needs == restart && restarts {
			continue
		}
		text := fmt.Sprintf("%s: %s read Secret %s (%s) before it was changed", u, english.Plural(n, "Pod", ""), u.Secret, strings.Join(u.Reads, ", "))
		if u.Why != "" {
			text += "; " + u.Why
		}
		out = append(out, text)
	}
	for i := range o.Copies {
		c := &o.Copies[i]
		text := fmt.Sprintf("Secret %s holds a copy of the old keys (%s), which csccm does not write", c, strings.Join(c.Keys, ", "))
		if by := o.usersOf(c); len(by) > 0 {
			text += "; used by " + strings.Join(by, ", ")
		}
		out = append(out, text)
	}
	return out
}

func (o *Others) usersOf(c *secretusers.Copy) []string {
	var by []string
	for i := range o.Workloads {
		if u := &o.Workloads[i]; u.Needs == update && u.Namespace == c.Namespace && u.Secret == c.Name {
			by = append(by, u.String())
		}
	}
	return by
}

// print lists the workloads and Secrets. heading is said first if there is anything.
func (o *Others) print(b *strings.Builder, restarts bool) {
	if len(o.Workloads)+len(o.Copies) > 0 {
		b.WriteString("These keys are used by:\n")
	}
	for i := range o.Workloads {
		u := &o.Workloads[i]
		fmt.Fprintf(b, "  - %s (%s, by %s of Secret %s): %s\n", u, count(u.PodCount), strings.Join(u.Reads, " and "), u.Secret, u.outlook(restarts))
	}
	for i := range o.Copies {
		c := &o.Copies[i]
		fmt.Fprintf(b, "  - Secret %s (%s): a copy, which csccm does not write\n", c, strings.Join(c.Keys, ", "))
	}
	for _, what := range o.NotLookedAt {
		fmt.Fprintf(b, "Not looked at: %s\n", what)
	}
}

func (u *Use) outlook(restarts bool) string {
	switch u.Needs {
	case reloads:
		return "takes new keys over by itself"
	case update:
		return "needs new keys in that Secret, and a restart"
	case recreate:
		return "must be replaced by you: " + u.Why
	}
	if restarts {
		return "is restarted"
	}
	return "must be restarted (--restart-others)"
}
