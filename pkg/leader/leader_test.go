// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

var theLease = Lease{Namespace: "kube-system", Name: "ccm", Duration: 15 * time.Second}

const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

// api is an API server that records the requests.
type api struct {
	status int
	seen   []string
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.seen = append(a.seen, r.Method+" "+r.URL.Path)
	return &http.Response{StatusCode: a.status, Body: http.NoBody, Request: r}, nil
}

func (a *api) do(t *testing.T, f *Fence, method, path string) error {
	t.Helper()
	_, err := f.Wrap(a).RoundTrip(httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}")))
	return err
}

func TestFenceFollowsRenewals(t *testing.T) {
	t.Parallel()
	c, a := clocktesting.NewFakeClock(time.Now()), &api{status: http.StatusOK}
	f := NewFence(c)
	require.NoError(t, a.do(t, f, http.MethodPatch, "/api/v1/nodes/n"), "without leader election everything is allowed")
	f.Guard(theLease)
	const node, stale = "/api/v1/nodes/n", "this replica may no longer lead: its lease was renewed 15s ago"
	for _, step := range []struct {
		name         string
		after        time.Duration
		status       int // the API server's answer
		method, path string
		err          string // part of the error; a request with an error is not sent
		leads        bool   // whether the process leads afterwards
	}{
		{"no renewal yet", 0, 200, http.MethodPatch, node, errStale.Error(), false},
		{"reads are always allowed", 0, 200, http.MethodGet, "/api/v1/nodes", "", false},
		{"a conflict", 0, 409, http.MethodPut, leases + "/ccm", "", false},
		{"created", 0, 201, http.MethodPost, leases, "", true},
		{"somebody else has written the lease, perhaps to take it", 0, 409, http.MethodPut, leases + "/ccm", "", false},
		{"renewed", 10 * time.Second, 200, http.MethodPut, leases + "/ccm", "", true},
		{"nearly too old", 14 * time.Second, 200, http.MethodDelete, node, "", true},
		{"too old", time.Second, 200, http.MethodDelete, node, stale, false},
		{"a write to another lease is not a renewal", 0, 200, http.MethodPut, leases + "/other", stale, false},
		{"renewals are allowed, otherwise it could never lead again", 0, 200, http.MethodPut, leases + "/ccm", "",
			true},
	} {
		c.Step(step.after)
		a.status = step.status
		sent := len(a.seen)
		err := a.do(t, f, step.method, step.path)
		if step.err == "" {
			require.NoError(t, err, step.name)
			sent++
		} else {
			require.ErrorContains(t, err, step.err, step.name)
		}

		assert.Len(t, a.seen, sent, step.name)
		leave, err := f.Enter()
		if assert.Equal(t, step.leads, err == nil, step.name); err == nil {
			leave()
		}
	}
}

func TestCloseWaitsForWrites(t *testing.T) {
	t.Parallel()
	f := NewFence(clock.RealClock{})
	leave, err := f.Enter()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, f.Close(ctx), "writes have not ended")
	_, err = f.Enter()
	require.ErrorIs(t, err, errClosed)
	done := make(chan error)
	go func() { done <- f.Close(t.Context()) }()
	leave()
	leave()
	require.NoError(t, <-done)
	require.NoError(t, f.Close(t.Context()))
	f.Guard(theLease)
	require.ErrorIs(t, (&api{}).do(t, f, http.MethodPut, leases+"/ccm"), errClosed, "the lease is not taken back")
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	require.NoError(t, err)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "ccm", errors.New("changed"))
	for _, c := range []struct {
		name     string
		follower bool
		busy     bool
		holder   string
		fails    error
		released bool
		err      string
	}{
		{name: "the leader", holder: host + "_1", released: true},
		{name: "a replica that waits", follower: true, holder: "other_1"},
		{name: "another replica was faster", holder: "other_1"},
		{name: "a holder whose host name has ours as prefix", holder: host + "2_1"},
		{name: "a write does not end", holder: host + "_1", busy: true, err: "writes have not ended"},
		{name: "a concurrent write", holder: host + "_1", fails: conflict, err: "release lease kube-system/ccm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// The clock is fake, so that the lease does not expire on a slow machine.
			f, a := NewFence(clocktesting.NewFakePassiveClock(time.Now())), &api{status: http.StatusOK}
			f.Guard(theLease)
			if !c.follower {
				require.NoError(t, a.do(t, f, http.MethodPut, leases+"/ccm"))
			}

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.busy {
				_, err := f.Enter()
				require.NoError(t, err)
				cancel()
			}

			kube := fake.NewClientset(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &c.holder, LeaseTransitions: ptr.To(int32(3))},
			})

			if c.fails != nil {
				kube.PrependReactor("update", "leases",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.fails })
			}

			if err := f.HandOver(ctx, kube.CoordinationV1()); c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}

			now, err := kube.CoordinationV1().Leases("kube-system").Get(t.Context(), "ccm", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, map[bool]string{false: c.holder, true: ""}[c.released], *now.Spec.HolderIdentity)
			assert.EqualValues(t, 3, *now.Spec.LeaseTransitions)
		})
	}
}
