// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// If a run is killed after any write to the cluster or to CloudStack, the next run completes the install and creates
// nothing twice.
func TestCrashAtEveryWrite(t *testing.T) { //nolint:tparallel // one write after the other, until none is left
	t.Parallel()
	atEveryWrite(t, func(t *testing.T, n int) (last bool) {
		e := newEnv(t)
		run := (&life{n: n}).bound(e.Kube)
		err := e.installer(t, e.keys(t)).Run(t.Context())
		if !run.ended() {
			require.NoError(t, err)
			require.Greater(t, n, 3, "writes of an install")
			return true
		}
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

// life simulates a csccm that is killed after its n-th write to the cluster or to CloudStack: the write happens, and
// all later calls fail until it is revived. 0 means never.
type life struct {
	n    int
	mu   sync.Mutex // the fake controller makes calls while the installer runs
	dead bool
}

var errDead = errors.New("the program is dead")

// goesOn reports whether a call succeeds.
func (l *life) goesOn(write bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	alive := !l.dead
	if alive && write {
		l.n--
		l.dead = l.n == 0
	}
	return alive
}

// ended reports whether csccm was killed, and revives it.
func (l *life) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.dead
	l.dead, l.n = false, 0
	return was
}

// bound makes a fake cluster count its writes, and fail all calls after the kill.
func (l *life) bound(kube *fakekube.Clientset) *life {
	kube.PrependReactor("*", "*", func(a ktesting.Action) (bool, kruntime.Object, error) {
		// the controller updates nodes; csccm patches them
		if a.GetVerb() == "update" && a.GetResource().Resource == "nodes" {
			return false, nil, nil
		}
		reads := a.GetVerb() == "get" || a.GetVerb() == "list" || a.GetVerb() == "watch"
		if !l.goesOn(!reads) {
			return true, nil, errDead
		}
		return false, nil, nil
	})
	return l
}

// cloud is like bound, for the API of CloudStack.
func (l *life) cloud(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, _ := url.ParseQuery(r.URL.RawQuery + "&" + string(body))
		reads := regexp.MustCompile("^(list|query|get|log)").MatchString(form.Get("command"))
		if !l.goesOn(!reads) { // csccm does not retry after this error
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"errorresponse":{"errorcode":401,"errortext":%q}}`, errDead)
			return
		}
		api.ServeHTTP(w, r)
	})
}
