// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	ip1 = "203.0.113.1"
	ip2 = "203.0.113.2"
)

func bookOf(services ...*corev1.Service) *book {
	b := newBook(5*time.Minute, clocktesting.NewFakeClock(testTime))
	for _, svc := range services {
		b.set(newVersion(svc))
	}
	return b
}

// requireRefused requires a refusal because the address belongs to a Service of another namespace that does not share
// it.
func requireRefused(t *testing.T, err error, text ...any) {
	t.Helper()
	refusal, ok := errors.AsType[*plan.RefusalError](err)
	require.True(t, ok, text...)
	require.Equal(t, plan.ReasonNotAllowed, refusal.Reason, text...)
}

func holdersOf(b *book, address string) []string {
	out := []string{}
	for _, h := range b.Use(address, "", "").Holders {
		out = append(out, h.Name)
	}
	return out
}

// The owner is the Service that acquired the address, then one that shows it in its status, then the oldest. A record
// alone, which may be forged, does not make an owner.
func TestOwnerComesFirst(t *testing.T) {
	t.Parallel()
	const internal, ip = "internal/tier-1/10.1.1.9", "10.1.1.9"
	of := func(address string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			setRecords(s, annotation.AddressRecord{ID: internal, IP: address, Internal: true, Allocated: true})
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		}
	}

	b := bookOf(
		aService("a", "record", recording(true, ip1)),
		aService("a", "young", showing(false, ip1), created(2*time.Hour)),
		aService("a", "old", showing(false, ip1), created(time.Hour)),
		aService("a", "owner", showing(true, ip1), created(3*time.Hour)),
		aService("bank", "victim", showing(false, ip2), created(time.Hour)),
		aService("shop", "forged", recording(true, ip2)), // older than victim; its record claims the address
		aService("bank", "inner", of(ip), created(time.Hour)),
		aService("shop", "claims", of("203.0.113.3")), // its record claims the internal address under another IP
	)

	assert.Equal(t, []string{"owner", "old", "young", "record"}, holdersOf(b, ip1))
	assert.Equal(t, []string{"victim", "forged"}, holdersOf(b, ip2))
	assert.Equal(t, []string{"inner", "claims"}, holdersOf(b, internal))
	b.remove("owner")
	assert.Equal(t, []string{"old", "young", "record"}, holdersOf(b, ip1))
	assert.Empty(t, holdersOf(b, "203.0.113.9"))
}

// Guests never come first. If no record says who is a guest, as in older records, the Service that shares with all
// others comes first.
func TestFirstOwnerComesBeforeItsGuests(t *testing.T) {
	t.Parallel()
	guest := func(s *corev1.Service) {
		setRecords(s,
			annotation.AddressRecord{ID: "id", IP: ip1, Acquired: testTime.Format(time.RFC3339), GuestOf: "bank"})
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip1}}
	}

	shares := annotated(annotation.ShareWith, "shop,blog")
	b := bookOf(
		aService("shop", "guest", guest),
		aService("bank", "owner", showing(false, ip1), created(time.Hour)),
		aService("shop", "old", showing(false, ip2)),
		aService("bank", "shares", showing(false, ip2), created(time.Hour), shares),
		aService("blog", "young", showing(false, ip2), created(2*time.Hour)),
	)

	assert.Equal(t, []string{"owner", "guest"}, holdersOf(b, ip1))
	assert.Equal(t, []string{"shares", "old", "young"}, holdersOf(b, ip2))
	b.remove("owner")
	claim := b.Use(ip1, "", "")
	namespace, decides := claim.Owner()
	assert.Equal(t, "bank", namespace, "by the record of the guest")
	assert.Nil(t, decides)
}

// An address that the last Service of a namespace has given up is reserved for the namespace for some minutes.
func TestReservationsAfterServices(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(testTime)
	b := newBook(5*time.Minute, clock)
	for _, svc := range []*corev1.Service{
		aService("bank", "one", showing(false, ip1, ip2)), aService("bank", "two", showing(false, ip2)),
		aService("bank", "record", recording(false, "203.0.113.3")),
		aService("shop", "late"), aService("bank", "next"),
	} {
		b.set(newVersion(svc))
	}

	reserve := func(uid, address string) error {
		err := b.Reserve(uid, wish(address, plan.AddressUse{}, -1))
		b.settle(types.UID(uid))
		return err
	}

	b.remove("one")
	b.remove("record")
	refusal, _ := errors.AsType[*plan.RefusalError](reserve("late", ip1))
	require.NotNil(t, refusal)
	assert.Equal(t, 5*time.Minute, refusal.After)
	requireRefused(t, reserve("late", ip2), "another Service of the namespace has it")
	require.NoError(t, reserve("late", "203.0.113.3"), "a record alone reserves nothing")
	require.NoError(t, reserve("next", ip1))
	b.set(newVersion(aService("bank", "two", versioned("2"))))
	clock.Step(3 * time.Minute)
	b.set(newVersion(aService("bank", "two", showing(false, ip1), versioned("3"))))
	b.set(newVersion(aService("bank", "two", versioned("4"))))
	clock.Step(2 * time.Minute)
	requireRefused(t, reserve("late", ip1), "it was left once more")
	require.NoError(t, reserve("late", ip2))
	clock.Step(3 * time.Minute)
	require.NoError(t, reserve("late", ip1))
}

// A Service that requests an address does not get one that was just acquired for another Service.
func TestAddressOnItsWayToAnotherService(t *testing.T) {
	t.Parallel()
	b := bookOf(aService("shop", "acquires"), aService("bank", "names"))
	reserve := func(acquired time.Time) error {
		err := b.Reserve("names",
			wish(ip1, plan.AddressUse{Acquired: evidence.InstantOf(acquired.Format(time.RFC3339))}, -1))
		b.settle("names")
		return err
	}

	err := b.Reserve("acquires", wish("", plan.AddressUse{}, -1))
	require.NoError(t, err)
	var wait *plan.WaitError
	require.ErrorAs(t, reserve(testTime), &wait)
	require.NoError(t, reserve(testTime.Add(-time.Hour)), "the account has had it for long")
	b.settle("acquires")
	require.NoError(t, reserve(testTime))
	pending := annotation.Records{Pending: []annotation.PendingAllocation{{JobID: "job", Since: testTime}}}
	b.set(newVersion(aService("shop", "acquires",
		annotated(annotation.Allocation, pending.Values()[annotation.Allocation]))))
	require.ErrorAs(t, reserve(testTime), &wait)
	b.set(newVersion(aService("shop", "acquires", recording(true, ip1))))
	requireRefused(t, reserve(testTime))
}

// A Service that moves from address to address can reserve only some of them.
func TestReservationsOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(testTime)
	b := newBook(5*time.Minute, clock)
	b.set(newVersion(aService("bank", "other", showing(false, ip1))))
	b.remove("other")
	for i := range 40 {
		b.set(newVersion(aService("shop", "moves", showing(false, fmt.Sprintf("203.0.113.%d", 100+i)))))
		clock.Step(time.Second)
	}
	assert.Len(t, b.reservations, maxReservations+1)
	assert.Contains(t, b.reservations, ip1)
	clock.Step(10 * time.Minute)
	b.set(newVersion(aService("shop", "moves", showing(false, ip2))))
	assert.Len(t, b.reservations, 1, "those that ended make room")
}

// A Service that an earlier process did not allow to use an address waits once more, because that process may have
// reserved the address. Other Services do not wait.
func TestReservationsOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(testTime)
	b := newBook(5*time.Minute, clock)
	refused := func(at time.Time, reason plan.Reason) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Status.Conditions = []metav1.Condition{{
				Type:               ConditionReady,
				Status:             metav1.ConditionFalse,
				Reason:             string(reason),
				LastTransitionTime: metav1.NewTime(at),
			}}
		}
	}

	for _, svc := range []*corev1.Service{
		aService("shop", "waits", refused(testTime.Add(-time.Hour), plan.ReasonNotAllowed)),
		aService("shop", "fails", refused(testTime.Add(-time.Hour), plan.ReasonInvalidPort)),
		aService("shop", "new", refused(testTime.Add(time.Second), plan.ReasonNotAllowed)),
	} {
		b.set(newVersion(svc))
	}

	reserve := func(uid string) error {
		err := b.Reserve(uid, wish(ip1, plan.AddressUse{}, -1))
		b.settle(types.UID(uid))
		return err
	}

	requireRefused(t, reserve("waits"))
	require.NoError(t, reserve("fails"))
	require.NoError(t, reserve("new"))
	clock.Step(5 * time.Minute)
	require.NoError(t, reserve("waits"))
}

func TestServicesOutsideOfTheBook(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Service){
		"another type":  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
		"another class": func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.org/other") },
	} {
		c, _ := idleController(t)
		b := c.book
		c.ServiceChanged(aService("a", "web",
			func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip1}} }))
		require.Equal(t, []string{"web"}, holdersOf(b, ip1), name)
		c.ServiceChanged(aService("a", "web", versioned("2"), change))
		assert.Empty(t, holdersOf(b, ip1), name)
		assert.Nil(t, b.ByUID("web"), name)
		assert.Nil(t, b.Find(func(*plan.Holder) bool { return true }), name)
	}
}

// A Service that is deleted or changes its type keeps its address in the book until the controller has cleaned up.
func TestServiceIsInTheBookUntilItIsCleanedUp(t *testing.T) {
	t.Parallel()
	notOne := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }

	for name, goes := range map[string]func(*Controller){
		"deleted":         func(c *Controller) { c.ServiceDeleted(aService("a", "web", showing(true, ip1))) },
		"of another type": func(c *Controller) { c.ServiceChanged(aService("a", "web", versioned("2"), notOne)) },
		"of another type at a start": func(c *Controller) {
			c.states = map[Key]*state{}
			c.book.clear()
			c.ServiceChanged(aService("a", "web", recording(true, ip1), notOne))
			c.ServiceChanged(aService("b", "late"))
		},
	} {
		c, _ := idleController(t)
		web := aService("a", "web", showing(true, ip1))
		c.stateOf(KeyOf(web)).touched = true
		c.ServiceChanged(web)
		c.ServiceChanged(aService("b", "late"))

		goes(c)
		holders := c.book.Use(ip1, "", "").Holders
		require.Len(t, holders, 1, name)
		assert.True(t, holders[0].Leaving, name)
		err := c.book.Reserve("late", wish(ip1, plan.AddressUse{}, -1))
		requireRefused(t, err, name)

		c.deleteState(KeyOf(web))
		err = c.book.Reserve("late", wish(ip1, plan.AddressUse{}, -1))
		assert.NoError(t, err, name)
	}
}

func TestFindServices(t *testing.T) {
	t.Parallel()
	b := bookOf(aService("a", "web", annotated(annotation.ShareWith, "shop")))
	want := &plan.Holder{UID: "web", Namespace: "a", Name: "web", ShareWith: []string{"shop"}}
	assert.Equal(t, want, b.ByUID("web"))
	named := func(h *plan.Holder) bool { return h.Name == "web" }
	assert.Equal(t, want, b.Find(named))
	assert.Nil(t, b.Find(func(h *plan.Holder) bool { return h.Name == "other" }))
	assert.Len(t, b.services, 1)

	successor := aService("a", "web", func(s *corev1.Service) { s.UID = "new" })
	b.set(newVersion(successor))
	b.remove("web")
	assert.Equal(t, "new", b.Find(named).UID, "the Service of the same name stays")
}

func TestReservations(t *testing.T) {
	t.Parallel()
	b := bookOf(aService("a", "first"), aService("a", "near"), aService("b", "far"))
	err := b.Reserve("first", wish(ip1, plan.AddressUse{}, -1))
	require.NoError(t, err)
	err = b.Reserve("first", wish(ip1, plan.AddressUse{}, -1))
	require.NoError(t, err, "it has the address")

	err = b.Reserve("far", wish(ip1, plan.AddressUse{}, -1))
	requireRefused(t, err)
	err = b.Reserve("near", wish(ip1, plan.AddressUse{}, -1))
	require.NoError(t, err, "the same namespace")

	b.set(newVersion(aService("a", "first", annotated("example.org/note", "x"))))
	assert.Equal(t, []string{"first", "near"}, holdersOf(b, ip1),
		"a change of the Service does not end its reservation")
	b.settle("first")
	assert.Equal(t, []string{"near"}, holdersOf(b, ip1), "the end of the sync does")

	b.set(newVersion(aService("a", "near", showing(false, ip1))))
	b.settle("near")
	assert.Equal(t, []string{"near"}, holdersOf(b, ip1))

	err = b.Reserve("gone", wish(ip2, plan.AddressUse{}, 0))
	require.NoError(t, err, "a Service that is being removed uses nothing new")
	assert.Empty(t, holdersOf(b, ip2))
	b.settle("gone")
}

func TestSharingDecidesReservations(t *testing.T) {
	t.Parallel()
	owner := func(share string, change ...func(*corev1.Service)) *version {
		if share != "" {
			change = append(change, annotated(annotation.ShareWith, share))
		}
		return newVersion(aService("bank", "owner", append(change, showing(true, ip1))...))
	}

	b := bookOf(aService("shop", "guest"), aService("blog", "late"))
	b.set(owner(""))
	reserve := func(uid string) error {
		err := b.Reserve(uid, wish(ip1, plan.AddressUse{}, -1))
		return err
	}

	requireRefused(t, reserve("guest"))
	assert.Equal(t, []string{"shop"}, b.set(owner("shop")), "it shares with more than before")
	assert.Empty(t, b.set(owner("shop")))
	require.NoError(t, reserve("guest"))
	requireRefused(t, reserve("late"))
	assert.Equal(t, []string{"*"}, b.set(owner("*")))
	require.NoError(t, reserve("late"))
	b.settle("late")
	assert.Empty(t, b.set(owner("")), "sharing is withdrawn")
	requireRefused(t, reserve("late"))
	b.set(owner("shop", annotated(annotation.Algorithm, "no such")))
	requireRefused(t, reserve("late"), "annotations that cannot be read share with nobody")
}

// wish returns a request for an address by a Service whose namespace may have most addresses; -1 means no limit.
func wish(address string, tags plan.AddressUse, most int) plan.Wish {
	grants := plan.AllGrants()
	grants.MaxAddresses = most
	return plan.Wish{Address: address, Tags: tags, Grants: grants}
}

// An acquired address counts once, even before the sync that acquired it ends.
func TestAcquiredAddressCountsOnce(t *testing.T) {
	t.Parallel()
	b := bookOf(aService("a", "one"), aService("a", "two"), aService("a", "three"), aService("a", "four"))
	err := b.Reserve("one", wish("", plan.AddressUse{}, 3))
	require.NoError(t, err)
	b.set(newVersion(aService("a", "one", recording(true, ip1))))
	for _, uid := range []string{"two", "three"} {
		err = b.Reserve(uid, wish("", plan.AddressUse{}, 3))
		require.NoError(t, err, uid)
	}
	err = b.Reserve("four", wish("", plan.AddressUse{}, 3))
	require.ErrorContains(t, err, "has 3 addresses, and may have 3")
	err = b.Reserve("four", wish(ip1, plan.AddressUse{}, 3))
	require.NoError(t, err, "an address that the namespace has is not one more")
	b.settle("two") // the acquisition has failed
	b.settle("four")
	err = b.Reserve("four", wish("", plan.AddressUse{}, 3))
	require.NoError(t, err)
}

// An informer may show a version that is older than what this process has written. The address book ignores it.
func TestOlderVersionsDoNotChangeTheBook(t *testing.T) {
	t.Parallel()
	finalizer := func(s *corev1.Service) { s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer} }
	shared := annotated(annotation.ShareWith, "shop")

	for name, tc := range map[string]struct {
		first, older, newer []func(*corev1.Service)
	}{
		"who has an address": {
			older: []func(*corev1.Service){finalizer},
			newer: []func(*corev1.Service){finalizer, showing(true, ip1)},
		},
		"a withdrawn share-with": {
			first: []func(*corev1.Service){shared, showing(true, ip1)},
			older: []func(*corev1.Service){shared, showing(true, ip1)},
			newer: []func(*corev1.Service){showing(true, ip1)},
		},
	} {
		c, _ := idleController(t)
		first := aService("bank", "web", append(tc.first, versioned("5"))...)
		c.ServiceChanged(first)
		c.ServiceChanged(aService("shop", "guest"))

		c.wrote(KeyOf(first), aService("bank", "web", append(tc.newer, versioned("7"))...))
		require.Equal(t, []string{"web"}, holdersOf(c.book, ip1), name)
		for range 2 {
			c.ServiceHandler().OnUpdate(first, aService("bank", "web", append(tc.older, versioned("6"))...))
			assert.Equal(t, []string{"web"}, holdersOf(c.book, ip1), name)
			err := c.book.Reserve("guest", wish(ip1, plan.AddressUse{}, -1))
			requireRefused(t, err, name)
		}
	}
}

// A Service that was cleaned up does not come back with an older version.
func TestOlderVersionsDoNotComeBackAfterTheCleanUp(t *testing.T) {
	t.Parallel()
	c, _ := idleController(t)
	notOne := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
	web := aService("a", "web", versioned("5"), showing(true, ip1))
	c.ServiceChanged(web)
	c.wrote(KeyOf(web), aService("a", "web", versioned("7"), notOne))
	c.deleteState(KeyOf(web))
	c.ServiceHandler().OnUpdate(web, aService("a", "web", versioned("6"), showing(true, ip1), notOne))
	assert.Empty(t, holdersOf(c.book, ip1))
	c.ServiceHandler().OnDelete(web)
	assert.Empty(t, c.states)
}
