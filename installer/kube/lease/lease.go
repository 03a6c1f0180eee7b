// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease holds and frees the lease by which cloud controller managers elect their leader.
package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
)

// Name is the name of a lease.
type Name struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Default is the lease of cloud controller managers that are told no other.
var Default = Name{"kube-system", "cloud-controller-manager"}

// Get reads a lease; an empty one, which nobody holds, where there is none.
func Get(ctx context.Context, kube kubernetes.Interface, name Name) (*coordinationv1.Lease, error) {
	l, err := kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{}, nil
	}
	if err != nil {
		return &coordinationv1.Lease{}, fmt.Errorf("reading lease %s: %w", name, err)
	}
	return l, nil
}

// Holder returns who holds a lease; "" for nobody.
func Holder(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }

// Age returns how long ago the holder of a lease has renewed it, and for how long a renewal lasts; false where nobody
// holds it.
func Age(l *coordinationv1.Lease, c clock.PassiveClock) (age, lasts time.Duration, held bool) {
	if Holder(l) == "" || l.Spec.RenewTime == nil {
		return 0, 0, false
	}
	return c.Since(l.Spec.RenewTime.Time), time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second, true
}

const (
	identityPrefix = "csccm-takeover_"
	duration       = 60 * time.Second // after which a csccm that died no longer holds it
	renewal        = 5 * time.Second
	missed         = 3 * renewal // after which a csccm that does not renew is taken for dead
	pollInterval   = 500 * time.Millisecond
	writeAttempts  = 20
)

// hold is csccm's own hold on the lease: as long as it lasts no controller leads.
type hold struct {
	kube     kubernetes.Interface
	clock    clock.Clock
	name     Name
	identity string
	// before is the lease as it was when it was taken away, at since. Its holder may go on for its duration.
	before *coordinationv1.LeaseSpec
	since  time.Time

	stop context.CancelFunc
	done chan struct{}
}

// ByCSCCM reports whether the holder of a lease is a csccm.
func ByCSCCM(holder string) bool { return strings.HasPrefix(holder, identityPrefix) }

// Hold takes the lease, so that no controller leads until end, which must be called, also after ^C or a failure: the
// cluster would be left without a leader. end reports whether the hold was lost meanwhile. ended are the workloads
// whose Pods are gone by then.
func Hold(
	ctx context.Context, kube kubernetes.Interface, c clock.Clock, name Name, ended []string,
) (end func() error, err error) {
	h, err := seize(ctx, kube, c, name, identityPrefix+string(uuid.NewUUID()))
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(h.check(ctx), h.outlast(ctx, ended), h.release(ctx))
	}, nil
}

// seize takes the lease away from its holder, who ends or stands by as soon as it notices, and
// keeps it until release. A lease that nobody has made is made.
func seize(ctx context.Context, kube kubernetes.Interface, c clock.Clock, name Name, identity string) (*hold, error) {
	if err := refuseAnother(ctx, kube, c, name); err != nil {
		return nil, err
	}

	h := &hold{kube: kube, clock: c, name: name, identity: identity, done: make(chan struct{})}
	if err := h.write(ctx, identity, duration, true); err != nil {
		return nil, fmt.Errorf("holding lease %s: %w", name, err)
	}

	// The hold outlives a cancelled ctx: it ends with release.
	rctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	go func() {
		defer close(h.done)
		for {
			select {
			case <-rctx.Done():
				return
			case <-c.After(renewal):
				_ = h.write(rctx, identity, duration, false) // check says in the end whether somebody took it
			}
		}
	}()

	return h, nil
}

// refuseAnother is an error where another csccm renews the lease. That is seen here: the holder's clock need not be
// ours.
func refuseAnother(ctx context.Context, kube kubernetes.Interface, c clock.Clock, name Name) error {
	var first *coordinationv1.Lease
	_, err := poll.Until(ctx, c, pollInterval, missed, func() (bool, error) {
		l, err := Get(ctx, kube, name)
		switch {
		case err != nil:
			return false, err
		case !ByCSCCM(Holder(l)) || l.Spec.RenewTime == nil:
			return true, nil
		case first == nil:
			first = l
		case Holder(l) != Holder(first) || !l.Spec.RenewTime.Equal(first.Spec.RenewTime):
			return false, report.Errorf(
				"let it end, then run the command again",
				"another csccm is at work: %s renews lease %s", Holder(l), name,
			)
		}
		return false, nil
	})

	return err
}

// check reports whether the hold still lasts.
func (h *hold) check(ctx context.Context) error {
	l, err := Get(ctx, h.kube, h.name)
	if by := Holder(l); err == nil && by != h.identity {
		err = fmt.Errorf("lease %s is held by %q: another csccm, or a controller that took it", h.name, by)
	}
	return err
}

// outlast waits until the controller that held the lease does not write any more, which is at once if it is a Pod of a
// workload that has ended. It may be one of ours: where the old controller did not lead, perhaps because it did not
// start, a new Pod took the lease at once. Two leaders would allocate two addresses. The identity of a controller
// begins with its host name, which is the Pod's name or, in the node's network, the node's.
func (h *hold) outlast(ctx context.Context, ended []string) error {
	by := ptr.Deref(h.before.HolderIdentity, "")
	if by == "" ||
		ByCSCCM(by) ||
		slices.ContainsFunc(ended, func(name string) bool { return strings.HasPrefix(by, name+"-") }) {
		return nil
	}
	until := h.since.Add(time.Duration(ptr.Deref(h.before.LeaseDurationSeconds, 0)) * time.Second)
	_, err := poll.Until(ctx, h.clock, pollInterval, math.MaxInt64,
		func() (bool, error) { return !h.clock.Now().Before(until), nil })
	return err
}

// release gives the lease up as client-go's election does, so that the next candidate has it at once.
func (h *hold) release(ctx context.Context) error {
	h.stop()
	<-h.done
	if err := h.write(ctx, "", time.Second, false); err != nil {
		return fmt.Errorf("giving up lease %s: %w; it is free by itself after %s", h.name, err, duration)
	}
	return nil
}

// write makes holder the one who has the lease for a time, again where somebody was faster. Only seize takes it away
// from another.
func (h *hold) write(ctx context.Context, holder string, lasts time.Duration, seize bool) error {
	leases := h.kube.CoordinationV1().Leases(h.name.Namespace)
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(wait.Backoff{Steps: writeAttempts}, raced, func() error {
		l, err := Get(ctx, h.kube, h.name)
		if err != nil || !seize && Holder(l) != h.identity {
			return err
		}

		missing := l.Name == ""
		l.Namespace, l.Name = h.name.Namespace, h.name.Name
		now := metav1.NewMicroTime(h.clock.Now())
		if seize && Holder(l) != holder {
			h.before, h.since = l.Spec.DeepCopy(), now.Time
			l.Spec.LeaseTransitions, l.Spec.AcquireTime = ptr.To(ptr.Deref(l.Spec.LeaseTransitions, 0)+1), &now
		}

		l.Spec.HolderIdentity = &holder
		l.Spec.RenewTime = &now
		l.Spec.LeaseDurationSeconds = ptr.To(int32(lasts.Seconds()))
		if missing {
			_, err = leases.Create(ctx, l, metav1.CreateOptions{})
		} else {
			_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		}

		return err
	})
}
