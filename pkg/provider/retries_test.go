// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/inventory"
)

// Projects that no Service names any more and nodes that are gone are forgotten; those in use are kept.
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
