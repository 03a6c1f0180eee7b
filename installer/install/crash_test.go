// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/journal"
)

// Whatever write to the cluster is the last one of a run, done or lost, the
// next run completes and makes nothing twice.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	died := errors.New("the program is dead")
	for n := 1; ; n++ {
		b := newBench(t, demoNodes()...)
		var mu sync.Mutex // the fake controller calls beside the installer
		writes, dead := 0, false
		b.kube.PrependReactor("*", "*", func(a ktesting.Action) (bool, kruntime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			controller := a.GetVerb() == "update" && a.GetResource().Resource == "nodes" // the installer patches them
			if controller || !dead && (a.GetVerb() == "get" || a.GetVerb() == "list" || a.GetVerb() == "watch") {
				return false, nil, nil
			}
			if writes++; writes >= n {
				dead = true
			}
			if dead && writes > n {
				return true, nil, died
			}
			return false, nil, nil // the last one happens, and nobody learns of it
		})
		o := b.keys(t)
		o.Journal = filepath.Join(t.TempDir(), "journal")
		err := b.installer(t, o).Run(t.Context())
		mu.Lock()
		completed := !dead
		dead, writes = false, -1<<30
		mu.Unlock()
		if completed {
			require.NoError(t, err)
			require.Greater(t, n, 5, "writes of an install")
			return
		}
		require.NoError(t, b.installer(t, b.keys(t)).Run(t.Context()), "after write %d: %s", n, &b.err)
		require.Equal(t, 3, b.initialised(t))
		require.Equal(t, "deployed", b.helm.release.Status)
		require.Empty(t, journal.Last(t.Context(), b.kube, "kube-system", Command).Describe())
	}
}
