// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/inventory"
)

func TestRecordsStayOutOfTheFrameworksCache(t *testing.T) {
	t.Parallel()
	var changed []types.UID
	c := newRecordsCache()
	c.onChange(func(uid types.UID) { changed = append(changed, uid) })
	svc := newService([]int{80}, annotate(annotation.KeepIP, "true", annotation.Allocation, "[1]"))
	out, err := c.strip(svc)
	require.NoError(t, err)
	cached := serviceOf(out)
	assert.Equal(t, map[string]string{annotation.KeepIP: "true"}, cached.Annotations)
	assert.Contains(t, svc.Annotations, annotation.Allocation, "the object of others is not changed")
	assert.Equal(t, svc.Annotations, c.restore(cached).Annotations)
	assert.NotContains(t, cached.Annotations, annotation.Allocation)
	assert.Same(t, svc, c.restore(svc), "one with records is used unchanged")
	_, _ = c.strip(svc)
	assert.Len(t, changed, 1)

	plain := newService([]int{80})
	out, _ = c.strip(plain)
	assert.Nil(t, serviceOf(out).Annotations)
	assert.Len(t, changed, 2)
	assert.Empty(t, c.byUID)
	assert.Same(t, plain, (*recordsCache)(nil).restore(plain))
}

// Projects that no Service names any more, and nodes that are gone, are removed from memory.
func TestWhatNobodyUsesIsForgotten(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	lb := newLoadBalancer(loadBalancerDeps{Clock: clk, InventoryOf: func(string) *inventory.Inventory { return inventory.New(nil, inventory.Options{}) }})
	lb.inventory("misspelt")
	kept := lb.inventory("shop")
	lb.missing[types.UID("node")] = clk.Now()
	for range 7 {
		clk.SetTime(clk.Now().Add(10 * time.Minute))
		assert.Same(t, kept, lb.inventory("shop"))
		lb.drop("some Service")
	}
	assert.Len(t, lb.others, 1)
	assert.Empty(t, lb.missing)
}
