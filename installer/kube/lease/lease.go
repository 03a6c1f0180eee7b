// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease takes and releases the Lease that cloud controller managers use for leader election.
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

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
)

// Name is the name of a lease.
type Name struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Default is the lease of cloud controller managers without the --leader-elect-resource flags.
var Default = Name{"kube-system", "cloud-controller-manager"}

// Get reads a lease. If the lease does not exist, Get returns an empty one, which has no holder.
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

// Holder returns the identity of a lease's holder; "" if nobody holds it.
func Holder(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }

// Age returns how long ago the holder renewed a lease, and the lease duration. hasHolder is false if nobody holds the
// lease.
func Age(l *coordinationv1.Lease, c clock.PassiveClock) (age, lasts time.Duration, hasHolder bool) {
	if Holder(l) == "" || l.Spec.RenewTime == nil {
		return 0, 0, false
	}
	return c.Since(l.Spec.RenewTime.Time), time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second, true
}

const (
	identityPrefix = "csccm-takeover_"
	duration       = 60 * time.Second // after which the lease of a crashed csccm expires
	renewal        = 5 * time.Second
	missed         = 3 * renewal // a csccm that does not renew for so long has crashed
	pollInterval   = 500 * time.Millisecond
	writeAttempts  = 20
)

// hold is csccm's own hold on the lease: no controller leads while it lasts.
type hold struct {
	kube     kubernetes.Interface
	clock    clock.Clock
	name     Name
	identity string
	// before is the lease as it was at the time since, when csccm took it. Its holder may continue to work for the
	// duration of that lease.
	before *coordinationv1.LeaseSpec
	since  time.Time

	stop context.CancelFunc
	done chan struct{}
}

// ByCSCCM reports whether the holder of a lease is csccm.
func ByCSCCM(holder string) bool { return strings.HasPrefix(holder, identityPrefix) }

// Hold takes the lease, so that no controller leads until end is called. Call end even after ^C or a failure: otherwise
// the cluster is left without a leader. end returns an error if the hold was lost in the meantime. ended names the
// workloads whose Pods no longer exist when end is called.
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

// seize takes the lease from its holder, which stops or waits as soon as it notices, and renews it until release. seize
// creates the lease if it does not exist.
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
				_ = h.write(rctx, identity, duration, false) // check reports at the end whether somebody took the lease
			}
		}
	}()

	return h, nil
}

// refuseAnother returns an error if another csccm renews the lease. It watches for a renewal instead of comparing the
// renew time with the local clock, because the holder's clock may differ.
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
				"wait until it has ended, then run the command again",
				"another csccm is running: %s renews lease %s", Holder(l), name,
			)
		}
		return false, nil
	})

	return err
}

// check returns an error if csccm no longer holds the lease.
func (h *hold) check(ctx context.Context) error {
	l, err := Get(ctx, h.kube, h.name)
	if by := Holder(l); err == nil && by != h.identity {
		err = fmt.Errorf("lease %s is held by %q: another csccm, or a controller that took it", h.name, by)
	}
	return err
}

// outlast waits until the controller that held the lease before can no longer write. It returns at once if that
// controller is a Pod of a workload that has ended. The former holder may also be a new Pod of csccm's chart, which
// takes the lease at once if the old controller did not lead, perhaps because it did not start. Two leaders would
// allocate two addresses. The identity of a controller begins with its host name: the Pod's name, or the node's name
// with hostNetwork.
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

// release gives the lease up as client-go's leader election does, so that the next candidate can take it at once.
func (h *hold) release(ctx context.Context) error {
	h.stop()
	<-h.done
	if err := h.write(ctx, "", time.Second, false); err != nil {
		return fmt.Errorf("releasing lease %s: %w; it expires after %s", h.name, err, duration)
	}
	return nil
}

// write writes holder and lease duration, and tries again after a conflict. Only seize overwrites another holder.
func (h *hold) write(ctx context.Context, holder string, lasts time.Duration, seize bool) error {
	leases := h.kube.CoordinationV1().Leases(h.name.Namespace)
	return retry.OnError(wait.Backoff{Steps: writeAttempts}, cluster.Raced, func() error {
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
