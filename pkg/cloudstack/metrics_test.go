// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"
)

// gathered is the value of a counter or the number of observations of a
// histogram on the process's /metrics page; 0 when it is not there.
func gathered(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			match := true
			for k, v := range labels {
				match = match && got[k] == v
			}
			if !match {
				continue
			}
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				return float64(m.GetHistogram().GetSampleCount())
			case dto.MetricType_GAUGE:
				return m.GetGauge().GetValue()
			default:
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	const command = "deleteSnapshotForMetricsTest" // no other test sends it
	type sample struct {
		name   string
		labels map[string]string
	}
	requests503 := sample{"cloudstack_api_requests_total", map[string]string{"command": command, "code": "503"}}
	requests200 := sample{"cloudstack_api_requests_total", map[string]string{"command": command, "code": "200"}}
	durations := sample{"cloudstack_api_request_duration_seconds", map[string]string{"command": command}}
	jobDurations := sample{"cloudstack_job_duration_seconds", map[string]string{"command": command}}
	before := map[string]float64{}
	key := func(s sample) string { return s.name + s.labels["code"] }
	for _, s := range []sample{requests503, requests200, durations, jobDurations} {
		before[key(s)] = gathered(t, s.name, s.labels)
	}
	requireMore := func(by float64, s sample) {
		t.Helper()
		require.InDelta(t, before[key(s)]+by, gathered(t, s.name, s.labels), 0, key(s))
	}
	f := newFakeAPI(t, func(n int, _ url.Values) reply {
		if n == 1 {
			return jsonReply(503, `{"x":{"errorcode":503}}`)
		}
		return jsonReply(200, `{"x":{}}`)
	})
	c := f.client(t)
	require.NoError(t, c.custom(t.Context(), command, nil, callOptions{}, &struct{}{}))
	requireMore(1, requests503)
	requireMore(1, requests200)
	requireMore(2, durations)
	require.GreaterOrEqual(t, gathered(t, "cloudstack_api_retries_total", nil), 1.0)
	require.GreaterOrEqual(t, gathered(t, "cloudstack_jobs_waiting", nil), 0.0)

	synctest.Test(t, func(t *testing.T) {
		jobs := newFakeJobs()
		jobs.add("j", 0)
		_, err := newJobWaiter(jobs, clock.RealClock{}, time.Hour).Wait(t.Context(), command, "j")
		require.NoError(t, err)
	})
	requireMore(1, jobDurations)
}
