// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/ui/model"
)

// TestCallsPerMinute reads the metrics of two replicas again and again.
func TestCallsPerMinute(t *testing.T) {
	t.Parallel()
	const refused = "403 Forbidden: User \"u\" cannot get path \"/metrics\""
	var (
		answers map[string]string // by the UID of the Pod
		asked   int
	)
	metrics := func(_ context.Context, p *corev1.Pod) ([]byte, error) {
		asked++
		text, ok := answers[string(p.UID)]
		if !ok {
			return nil, errors.New(refused)
		}
		return []byte(text), nil
	}
	lists := func(n int) string {
		return fmt.Sprintf("# TYPE cloudstack_api_requests_total counter\ncloudstack_api_requests_total{code=\"200\",command=\"listZones\"} %d\n", n)
	}
	pod := func(uid string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Status: corev1.PodStatus{Phase: phase}}
	}
	both := []corev1.Pod{pod("a", corev1.PodRunning), pod("b", corev1.PodRunning)}
	rate := func(n float64) []model.Calls {
		return []model.Calls{{Command: "listZones", Code: "200", PerMinute: n}}
	}
	var r rates
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, step := range []struct {
		what    string
		after   time.Duration
		answers map[string]string
		pods    []corev1.Pod
		want    []model.Calls
		missing string
		asked   int
	}{
		{"the first reading", 0, map[string]string{"a": lists(100), "b": lists(0)}, both, nil, "two readings", 2},
		{"too early for another", 5 * time.Second, nil, both, nil, "two readings", 0},
		{"two calls in 10 seconds", 5 * time.Second, map[string]string{"a": lists(102), "b": lists(0)}, both, rate(12), "", 2},
		{"a Pod that does not answer", 20 * time.Second, map[string]string{"a": lists(103)}, both, rate(6), "", 2},
		{"it answers again", 10 * time.Second, map[string]string{"a": lists(104), "b": lists(5000)}, both, rate(7506), "", 2},
		{"a container that started again", 30 * time.Second, map[string]string{"a": lists(4), "b": lists(5000)}, both, rate(5004), "", 2},
		{"no calls since, and some within the minute", 10 * time.Second, map[string]string{"a": lists(4), "b": lists(5000)}, both, rate(4289.1), "", 2},
		{"a Pod that waits is not asked", 10 * time.Second, map[string]string{"a": lists(5)}, []corev1.Pod{both[0], pod("b", corev1.PodPending)}, rate(5), "", 1},
		{"refused", 10 * time.Second, nil, both, nil, refused, 2},
		{"refused before", 10 * time.Second, map[string]string{"a": lists(6)}, both[:1], nil, "two readings", 1},
		{"no Pod", 10 * time.Second, nil, nil, nil, "no Pod of the controller runs", 0},
		{"no metrics", 10 * time.Second, map[string]string{"a": "<html>"}, both[:1], nil, "its metrics", 1},
	} {
		at, answers, asked = at.Add(step.after), step.answers, 0
		r = r.read(t.Context(), metrics, step.pods, at)
		assert.Equal(t, step.want, r.shown, step.what)
		assert.Equal(t, step.asked, asked, step.what)
		if step.missing == "" {
			assert.Nil(t, r.missing, step.what)
			continue
		}
		require.NotNil(t, r.missing, step.what)
		assert.Contains(t, r.missing.Reason, step.missing, step.what)
		assert.NotEmpty(t, r.missing.Remedy, step.what)
	}
}
