// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/plane"
)

// The framework's election: a lease lasts 15 s and is tried every 2 s, with jitter.
const (
	leaseDuration = 15 * time.Second
	leaseRetry    = 5 * time.Second
)

// TestFailover ends a leader in four ways and measures how long nobody leads. In none of them may both
// replicas write.
//
//nolint:tparallel // what it measures wants the machine for itself; the four share it
func TestFailover(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, p *child.Process, l *link)
		most time.Duration // until another leads
		code int           // the old leader's exit code
	}{
		{
			name: "told to end", most: leaseRetry,
			end: func(t *testing.T, p *child.Process, _ *link) { signal(t, p, syscall.SIGTERM) },
		},
		{
			name: "killed", most: leaseDuration + leaseRetry, code: 128 + int(syscall.SIGKILL),
			end: func(t *testing.T, p *child.Process, _ *link) { signal(t, p, syscall.SIGKILL) },
		},
		{
			name: "cut off from the API server", most: leaseDuration + leaseRetry, code: 1,
			end: func(_ *testing.T, _ *child.Process, l *link) { l.cut() },
		},
		{
			name: "paused", most: leaseDuration + leaseRetry, code: 1,
			end: func(t *testing.T, p *child.Process, _ *link) { signal(t, p, syscall.SIGSTOP) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDirect(t, 6, plane.Options{Audit: true})
			d.register(t, 1, 3, nil)
			l := newLink(t, d.url())
			old := d.controllerAt(t, "ccm-a", l.url())
			d.leads(t, old)
			d.initialised(t, 3, time.Minute)
			first := d.holder(t)
			next := d.controller(t, "ccm-b")
			d.waits(t, next)

			d.cloud.Ledger().Reset()
			begun := time.Now()
			c.end(t, old, l)
			took := wait(t, time.Minute, "another leader", func(context.Context) error {
				if now := d.holder(t); now == first || now == "" {
					return fmt.Errorf("the lease is held by %q", now)
				}
				return nil
			})
			// Work that both would do.
			d.register(t, 4, 6, nil)
			d.service(t, "web")
			d.initialised(t, 6, time.Minute)
			worked := time.Since(begun)
			if c.name == "paused" {
				signal(t, old, syscall.SIGCONT)
			}
			ip := d.balanced(t, "web")
			select {
			case <-old.Done():
				if code := old.ExitCode(); code != c.code {
					t.Errorf("the old leader ended with %d, want %d", code, c.code)
				}
			case <-time.After(time.Minute):
				t.Error("the old leader has not ended")
			}
			if took > c.most {
				t.Errorf("nobody led for %s, at most %s is due", took, c.most)
			}
			d.noOverlap(t, "ccm-a", "ccm-b")
			lists := 0
			for _, call := range d.cloud.Ledger().Calls() {
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
func (d *direct) leads(t *testing.T, p *child.Process) {
	t.Helper()
	d.says(t, p, "uccessfully acquired lease")
}

// waits waits until a replica asks for the lease.
func (d *direct) waits(t *testing.T, p *child.Process) {
	t.Helper()
	d.says(t, p, "ttempting to acquire leader lease")
}

func (*direct) says(t *testing.T, p *child.Process, what string) {
	t.Helper()
	wait(t, time.Minute, p.Name+" to say "+what, func(context.Context) error {
		log, err := os.ReadFile(p.Log)
		if err != nil || !strings.Contains(string(log), what) {
			return errors.Join(err, p.Err(), errors.New("not yet"))
		}
		return nil
	})
}

func (d *direct) holder(t *testing.T) string {
	t.Helper()
	l, err := d.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func (d *direct) service(t *testing.T, name string) {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts([]int32{80, 443})},
	}
	if _, err := d.client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// balanced waits for a Service's address.
func (d *direct) balanced(t *testing.T, name string) (ip string) {
	t.Helper()
	wait(t, time.Minute, "an address", func(ctx context.Context) error {
		s, err := d.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) == 0 {
			return errors.Join(err, errors.New("not yet"))
		}
		ip = s.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return ip
}

// written is one write of the audit log.
type written struct {
	Verb      string `json:"verb"`
	User      struct{ Username string }
	ObjectRef struct{ Resource, Name, Namespace, APIGroup string }
	At        time.Time          `json:"requestReceivedTimestamp"`
	Status    struct{ Code int } `json:"responseStatus"`
}

// noOverlap looks for writes of the loser after the winner's first, in both APIs. Attempts to take the lease
// are not counted: they are how the loser learns that it has lost, and they fail.
func (d *direct) noOverlap(t *testing.T, loser, winner string) {
	t.Helper()
	f, err := os.Open(filepath.Join(d.Dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []written
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var w written
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
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
	for _, c := range d.cloud.Ledger().Calls() { // since the end of the old leader's time
		if c.Caller == loser && !strings.HasPrefix(c.Command, "list") && !strings.HasPrefix(c.Command, "query") {
			t.Errorf("%s sent %s to CloudStack", loser, c.Command)
		}
	}
}
