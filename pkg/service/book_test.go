// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	ip1 = "203.0.113.1"
	ip2 = "203.0.113.2"
)

func bookOf(services ...*corev1.Service) *book {
	b := newBook()
	for _, svc := range services {
		b.set(read(svc, ""))
	}
	return b
}

func holdersOf(b *book, address string) []string {
	out := []string{}
	for _, h := range b.Holders(address) {
		out = append(out, h.Name)
	}
	return out
}

// The owner is the Service that acquired the address, then one that shows it, then the oldest. Records alone, which may be forged,
// make no owner.
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
		aService("shop", "forged", recording(true, ip2)), // older, and says that it acquired the address
		aService("bank", "inner", of(ip), created(time.Hour)),
		aService("shop", "claims", of("203.0.113.3")), // says that its own address is the one of a tier
	)
	assert.Equal(t, []string{"owner", "old", "young", "record"}, holdersOf(b, ip1))
	assert.Equal(t, []string{"victim", "forged"}, holdersOf(b, ip2))
	assert.Equal(t, []string{"inner", "claims"}, holdersOf(b, internal))
	b.remove("owner")
	assert.Equal(t, []string{"old", "young", "record"}, holdersOf(b, ip1))
	assert.Empty(t, holdersOf(b, "203.0.113.9"))
}

func TestServicesOutsideOfTheBook(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Service){
		"another type":  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
		"another class": func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.org/other") },
	} {
		c, _ := idleController(t)
		b := c.book
		c.ServiceAdded(aService("a", "web", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip1}} }))
		require.Equal(t, []string{"web"}, holdersOf(b, ip1), name)
		c.serviceChanged(aService("a", "web", versioned("2"), change))
		assert.Empty(t, holdersOf(b, ip1), name)
		assert.Nil(t, b.ByUID("web"), name)
		assert.Nil(t, b.ByName("a", "web"), name)
		assert.Nil(t, b.ByLoadBalancer(plan.LBName("web")), name)
	}
}

// A Service without a finalizer has its address until it is cleaned up, whatever the object says.
func TestServiceIsInTheBookUntilItIsCleanedUp(t *testing.T) {
	t.Parallel()
	notOne := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
	for name, goes := range map[string]func(*Controller){
		"deleted":         func(c *Controller) { c.ServiceDeleted(aService("a", "web", showing(true, ip1))) },
		"of another type": func(c *Controller) { c.serviceChanged(aService("a", "web", versioned("2"), notOne)) },
		"of another type at a start": func(c *Controller) {
			c.states = map[Key]*state{}
			c.book.clear()
			c.ServiceAdded(aService("a", "web", recording(true, ip1), notOne))
			c.ServiceAdded(aService("b", "late"))
		},
	} {
		c, _ := idleController(t)
		web := aService("a", "web", showing(true, ip1))
		c.stateOf(KeyOf(web)).touched = true
		c.ServiceAdded(web)
		c.ServiceAdded(aService("b", "late"))
		goes(c)
		holders := c.book.Holders(ip1)
		require.Len(t, holders, 1, name)
		assert.True(t, holders[0].Leaving, name)
		_, err := c.book.Reserve("late", ip1, -1)
		require.ErrorIs(t, err, loadbalancer.ErrNotShared, name)
		c.forget(KeyOf(web))
		_, err = c.book.Reserve("late", ip1, -1)
		assert.NoError(t, err, name)
	}
}

func TestFindServices(t *testing.T) {
	t.Parallel()
	b := bookOf(aService("a", "web", annotated(annotation.ShareWith, "shop")))
	want := &plan.Holder{UID: "web", Namespace: "a", Name: "web", ShareWith: []string{"shop"}}
	assert.Equal(t, want, b.ByUID("web"))
	assert.Equal(t, want, b.ByName("a", "web"))
	assert.Equal(t, want, b.ByLoadBalancer(plan.LBName("web")))
	assert.Len(t, b.services, 1)
	successor := aService("a", "web", func(s *corev1.Service) { s.UID = "new" })
	b.set(read(successor, ""))
	b.remove("web")
	assert.Equal(t, "new", b.ByName("a", "web").UID, "the Service of the same name stays")
}

func TestReservations(t *testing.T) {
	t.Parallel()
	b := bookOf(aService("a", "first"), aService("a", "near"), aService("b", "far"))
	_, err := b.Reserve("first", ip1, -1)
	require.NoError(t, err)
	_, err = b.Reserve("first", ip1, -1)
	require.NoError(t, err, "it has the address")
	_, err = b.Reserve("far", ip1, -1)
	require.ErrorIs(t, err, loadbalancer.ErrNotShared)
	_, err = b.Reserve("near", ip1, -1)
	require.NoError(t, err, "the same namespace")
	b.set(read(aService("a", "first", annotated("example.org/note", "x")), ""))
	assert.Equal(t, []string{"first", "near"}, holdersOf(b, ip1), "a change of the Service does not end its reservation")
	b.settle("first")
	assert.Equal(t, []string{"near"}, holdersOf(b, ip1), "the end of the sync does")
	b.set(read(aService("a", "near", showing(false, ip1)), ""))
	b.settle("near")
	assert.Equal(t, []string{"near"}, holdersOf(b, ip1))
	_, err = b.Reserve("gone", ip2, 0)
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
		return read(aService("bank", "owner", append(change, showing(true, ip1))...), "")
	}
	b := bookOf(aService("shop", "guest"), aService("blog", "late"))
	b.set(owner(""))
	reserve := func(uid string) error {
		_, err := b.Reserve(uid, ip1, -1)
		return err
	}
	require.ErrorIs(t, reserve("guest"), loadbalancer.ErrNotShared)
	assert.Equal(t, []string{"shop"}, b.set(owner("shop")), "it shares with more than before")
	assert.Empty(t, b.set(owner("shop")))
	require.NoError(t, reserve("guest"))
	require.ErrorIs(t, reserve("late"), loadbalancer.ErrNotShared)
	assert.Equal(t, []string{"*"}, b.set(owner("*")))
	require.NoError(t, reserve("late"))
	b.settle("late")
	assert.Empty(t, b.set(owner("")), "sharing is withdrawn")
	require.ErrorIs(t, reserve("late"), loadbalancer.ErrNotShared)
	b.set(owner("shop", annotated(annotation.Algorithm, "no such")))
	require.ErrorIs(t, reserve("late"), loadbalancer.ErrNotShared, "annotations that cannot be read share with nobody")
}

// An address that was acquired counts once, also before the sync that acquired it ends.
func TestAcquiredAddressCountsOnce(t *testing.T) {
	t.Parallel()
	b := bookOf(aService("a", "one"), aService("a", "two"), aService("a", "three"), aService("a", "four"))
	_, err := b.Reserve("one", "", 3)
	require.NoError(t, err)
	b.set(read(aService("a", "one", recording(true, ip1)), ""))
	for _, uid := range []string{"two", "three"} {
		_, err = b.Reserve(uid, "", 3)
		require.NoError(t, err, uid)
	}
	held, err := b.Reserve("four", "", 3)
	require.ErrorIs(t, err, loadbalancer.ErrTooMany)
	assert.Equal(t, 3, held)
	_, err = b.Reserve("four", ip1, 3)
	require.NoError(t, err, "an address that the namespace has is not one more")
	b.settle("two") // it acquired none after all
	b.settle("four")
	_, err = b.Reserve("four", "", 3)
	require.NoError(t, err)
}

// An informer may show a version that is older than what this process has written: the address book does not go back to it.
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
		c.ServiceAdded(first)
		c.ServiceAdded(aService("shop", "guest"))
		c.wrote(KeyOf(first), aService("bank", "web", append(tc.newer, versioned("7"))...))
		require.Equal(t, []string{"web"}, holdersOf(c.book, ip1), name)
		for range 2 {
			c.ServiceHandler().OnUpdate(first, aService("bank", "web", append(tc.older, versioned("6"))...))
			assert.Equal(t, []string{"web"}, holdersOf(c.book, ip1), name)
			_, err := c.book.Reserve("guest", ip1, -1)
			require.ErrorIs(t, err, loadbalancer.ErrNotShared, name)
		}
	}
}

// What was cleaned up does not come back with an older version.
func TestOlderVersionsDoNotComeBackAfterTheCleanUp(t *testing.T) {
	t.Parallel()
	c, _ := idleController(t)
	notOne := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
	web := aService("a", "web", versioned("5"), showing(true, ip1))
	c.ServiceAdded(web)
	c.wrote(KeyOf(web), aService("a", "web", versioned("7"), notOne))
	c.forget(KeyOf(web))
	c.ServiceHandler().OnUpdate(web, aService("a", "web", versioned("6"), showing(true, ip1), notOne))
	assert.Empty(t, holdersOf(c.book, ip1))
	c.ServiceHandler().OnDelete(web)
	assert.Empty(t, c.states)
}
