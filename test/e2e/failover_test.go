// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/child"
)

// leaseDuration is the framework's; who waits for the lease looks at it every 2 s to 4.4 s.
const leaseDuration = 15 * time.Second

// TestFailover ends a leader in four ways and measures how long nobody leads. In none of them may both
// replicas write.
//
//nolint:tparallel // what it measures wants the machine for itself; the four share it
func TestFailover(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, p *child.Process, l *link)
		over time.Duration // since its last renewal the old leader's lease is over
		most int           // looks of the other at a lease that is over: one takes it, the first may have been on its way
		code int           // the old leader's exit code
	}{
		{
			name: "told to end", most: 1, // which it gives back
			end: func(t *testing.T, p *child.Process, _ *link) { signal(t, p, syscall.SIGTERM) },
		},
		{
			name: "killed", over: leaseDuration, most: 3, code: 128 + int(syscall.SIGKILL),
			end: func(t *testing.T, p *child.Process, _ *link) { signal(t, p, syscall.SIGKILL) },
		},
		{
			name: "cut off from the API server", over: leaseDuration, most: 3, code: 1,
			end: func(_ *testing.T, _ *child.Process, l *link) { l.cut() },
		},
		{
			name: "paused", over: leaseDuration, most: 3, code: 1,
			end: func(t *testing.T, p *child.Process, _ *link) { signal(t, p, syscall.SIGSTOP) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := newDirectEnv(t, 6)
			env.register(t, 1, 3, nil)
			l := newLink(t, env.url())
			old := env.controllerAt(t, "ccm-a", l.url())
			env.leads(t, old)
			env.initialised(t, 3, limit)
			first := env.holder(t)
			next := env.controller(t, "ccm-b")
			env.waits(t, next)

			env.Cloud.Ledger().Reset()
			begun := time.Now()
			c.end(t, old, l)
			took := wait(t, limit, "another leader", func(context.Context) error {
				if now := env.holder(t); now == first || now == "" {
					return fmt.Errorf("the lease is held by %q", now)
				}
				return nil
			})
			// Work that both would do.
			env.register(t, 4, 6, nil)
			env.service(t, "web")
			env.initialised(t, 6, limit)
			worked := time.Since(begun)
			if c.name == "paused" {
				signal(t, old, syscall.SIGCONT)
			}
			ip := env.balanced(t, "web")
			select {
			case <-old.Done():
				if code := old.ExitCode(); code != c.code {
					t.Errorf("the old leader ended with %d, want %d", code, c.code)
				}
			case <-time.After(limit):
				t.Error("the old leader has not ended")
			}
			env.takenInTime(t, "ccm-a", "ccm-b", c.over, c.most)
			env.noOverlap(t, "ccm-a", "ccm-b")
			lists := 0
			for _, call := range env.Cloud.Ledger().Calls() {
				if call.Caller == "ccm-b" && call.Command == "listVirtualMachines" {
					lists++
				}
			}
			// One list to begin with; new nodes may need newer ones.
			if most := 1 + 1 + int(time.Since(begun)/(3*time.Second)); lists > most {
				t.Errorf("the new leader listed the VMs %d times, at most %d are due", lists, most)
			}
			t.Logf("FAILOVER | %s | another leads after %.1f s | new nodes initialised after %.1f s | %s | %d lists of VMs |", c.name, took.Seconds(), worked.Seconds(), ip, lists)
		})
	}
}

func signal(t *testing.T, p *child.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// leads waits until a replica says that it leads.
func (env *directEnv) leads(t *testing.T, p *child.Process) {
	t.Helper()
	env.says(t, p, "uccessfully acquired lease")
}

// waits waits until a replica asks for the lease.
func (env *directEnv) waits(t *testing.T, p *child.Process) {
	t.Helper()
	env.says(t, p, "ttempting to acquire leader lease")
}

func (*directEnv) says(t *testing.T, p *child.Process, what string) {
	t.Helper()
	wait(t, limit, p.Name+" to say "+what, func(context.Context) error {
		log, err := os.ReadFile(p.Log)
		if err != nil || !strings.Contains(string(log), what) {
			return errors.Join(err, p.Err(), errors.New("not yet"))
		}
		return nil
	})
}

func (env *directEnv) holder(t *testing.T) string {
	t.Helper()
	l, err := env.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func (env *directEnv) service(t *testing.T, name string) {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts([]int32{80, 443})},
	}
	if _, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// balanced waits for a Service's address.
func (env *directEnv) balanced(t *testing.T, name string) (ip string) {
	t.Helper()
	wait(t, limit, "an address", func(ctx context.Context) error {
		s, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) == 0 {
			return errors.Join(err, errors.New("not yet"))
		}
		ip = s.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return ip
}

// request is one of the audit log.
type request struct {
	Verb      string `json:"verb"`
	User      struct{ Username string }
	ObjectRef struct{ Resource, Name, Namespace, APIGroup string }
	At        time.Time          `json:"requestReceivedTimestamp"`
	Answered  time.Time          `json:"stageTimestamp"`
	Status    struct{ Code int } `json:"responseStatus"`
}

// requests are those that the API server has answered.
func (env *directEnv) requests(t *testing.T) (all []request) {
	t.Helper()
	lines, err := env.AuditLog()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var r request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// takenInTime counts how often the winner looked at the lease after it was over, which no machine is too slow for: seconds
// are. It notices a renewal when it looks next, and goes by its own clock from there.
func (env *directEnv) takenInTime(t *testing.T, loser, winner string, over time.Duration, most int) {
	t.Helper()
	var looks []request
	var renewed, taken request // the loser's last, and the winner's first
	for _, r := range env.requests(t) {
		if r.ObjectRef.Resource != "leases" || r.ObjectRef.Name != lease || r.Status.Code >= http.StatusMultipleChoices {
			continue
		}
		switch {
		case r.User.Username == winner && r.Verb == "get":
			looks = append(looks, r)
		case r.User.Username == winner && (taken.At.IsZero() || r.At.Before(taken.At)):
			taken = r
		case r.User.Username == loser && r.Verb != "get" && r.At.After(renewed.At):
			renewed = r
		}
	}
	if renewed.At.IsZero() || taken.At.IsZero() {
		t.Errorf("%s has never renewed the lease, or %s never taken it", loser, winner)
		return
	}
	slices.SortFunc(looks, func(a, b request) int { return a.At.Compare(b.At) })
	end := renewed.Answered
	if over > 0 {
		if i := slices.IndexFunc(looks, func(r request) bool { return r.At.After(end) }); i >= 0 {
			end = looks[i].Answered.Add(over)
		}
	}
	n := 0
	for _, r := range looks {
		if r.At.After(end) && r.At.Before(taken.At) {
			n++
		}
	}
	if n > most {
		t.Errorf("%s took the lease at its look number %d after the lease was over, at most %d are due", winner, n, most)
	}
	l, err := env.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil || *l.Spec.LeaseDurationSeconds != int32(leaseDuration/time.Second) {
		t.Errorf("want a lease for %s: %v, %v", leaseDuration, err, l.Spec)
	}
}

// noOverlap looks for writes of the loser after the winner's first, in both APIs. Attempts to take the lease
// are not counted: they are how the loser learns that it has lost, and they fail.
func (env *directEnv) noOverlap(t *testing.T, loser, winner string) {
	t.Helper()
	var all []request
	for _, w := range env.requests(t) {
		election := w.ObjectRef.Resource == "leases" || w.ObjectRef.Resource == "events"
		if !election && slices.Contains([]string{"create", "update", "patch", "delete"}, w.Verb) {
			all = append(all, w)
		}
	}
	var begun time.Time
	counts := map[string]int{}
	for _, w := range all {
		counts[w.User.Username]++
		if w.User.Username == winner && (begun.IsZero() || w.At.Before(begun)) {
			begun = w.At
		}
	}
	if counts[loser] == 0 || counts[winner] == 0 {
		t.Errorf("writes of %s: %d, of %s: %d; both are to write in their time", loser, counts[loser], winner, counts[winner])
	}
	for _, w := range all {
		if w.User.Username == loser && w.At.After(begun) {
			t.Errorf("%s wrote %+v after %s had begun at %s", loser, w, winner, begun)
		}
	}
	for _, c := range env.Cloud.Ledger().Calls() { // since the end of the old leader's time
		if c.Caller == loser && !strings.HasPrefix(c.Command, "list") && !strings.HasPrefix(c.Command, "query") {
			t.Errorf("%s sent %s to CloudStack", loser, c.Command)
		}
	}
}
