// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// Whatever write to the cluster is the last one of a run, done or lost, the
// next run completes and makes nothing twice.
func TestCrashAtEveryWrite(t *testing.T) { //nolint:tparallel // one write after the other, until none is left
	t.Parallel()
	died := errors.New("the program is dead")
	atEveryWrite(t, func(t *testing.T, n int) (last bool) {
		e := newEnv(t)
		revive, completed := dieAfter(e.Kube, n, died)
		err := e.installer(t, e.keys(t)).Run(t.Context())
		if completed() {
			require.NoError(t, err)
			require.Greater(t, n, 3, "writes of an install")
			return true
		}
		revive()
		e.install(t, e.keys(t))
		require.Equal(t, 3, e.initialised(t))
		require.Equal(t, "deployed", e.Releases.Release().Status)
		return false
	})
}

// atEveryWrite tries n = 1, 2 ... until the last, each with an environment of its own; with -short every fifth.
func atEveryWrite(t *testing.T, try func(t *testing.T, n int) (last bool)) {
	t.Helper()
	step := 1
	if testing.Short() {
		step = 5
	}
	for n, last := 1, false; !last && !t.Failed(); n += step {
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) { last = try(t, n) })
	}
}

// dieAfter has every write after the n-th fail, until revive. The n-th happens, and nobody learns of it.
func dieAfter(kube *fakekube.Clientset, n int, died error) (revive func(), completed func() bool) {
	var mu sync.Mutex // the fake controller calls beside the installer
	writes, dead := 0, false
	kube.PrependReactor("*", "*", func(a ktesting.Action) (bool, kruntime.Object, error) {
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
		return false, nil, nil
	})
	return func() { mu.Lock(); defer mu.Unlock(); dead, writes = false, -1<<30 },
		func() bool { mu.Lock(); defer mu.Unlock(); return !dead }
}
