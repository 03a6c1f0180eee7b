// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

// A Service that names a project which does not exist never got anything: it can be deleted, or the framework would
// keep its finalizer for ever.
func TestServiceOfAProjectThatIsNotThereCanBeDeleted(t *testing.T) {
	t.Parallel()
	for name, project := range map[string]string{"by name": "nowhere", "by id": "7c3e1b52-0000-4000-8000-00000000dead"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			before := b.dump()
			b.service([]int{80}, func(s *corev1.Service) { s.Annotations[annotation.Project] = project })
			require.Error(t, b.sync("w1"))
			_, exists, err := b.lb.GetLoadBalancer(t.Context(), "kubernetes", b.get())
			require.NoError(t, err)
			assert.False(t, exists)
			require.NoError(t, b.remove())
			require.NoError(t, b.lb.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", b.get()), "as when its type changes")
			assert.Equal(t, before, b.dump())
		})
	}
}
