// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
)

func TestRecordsStayOutOfTheFrameworksCache(t *testing.T) {
	t.Parallel()
	var changed []types.UID
	c := newRecordsCache()
	c.changed = func(uid types.UID) { changed = append(changed, uid) }
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
}

// Projects that no Service names any more are removed from memory.
func TestWhatNobodyUsesIsForgotten(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.lb.inventory("misspelt")
	kept := env.lb.inventory("shop")
	for range 2 {
		env.advance(10 * time.Minute)
		assert.Same(t, kept, env.lb.inventory("shop"))
	}
	assert.Len(t, env.lb.others, 1)
}
