// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	apiRequests = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "cloudstack_api_requests_total",
		Help: "HTTP requests to the CloudStack API by command and HTTP status; code is \"none\" when no " +
			"answer came.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"command", "code"})
	apiDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "cloudstack_api_request_duration_seconds",
		Help:           "Duration of single HTTP requests to the CloudStack API by command.",
		Buckets:        []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 60},
		StabilityLevel: metrics.ALPHA,
	}, []string{"command"})
	apiRetries = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "cloudstack_api_retries_total",
		Help:           "Requests to the CloudStack API that were repeated after a failure.",
		StabilityLevel: metrics.ALPHA,
	})
	jobsWaiting = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "cloudstack_jobs_waiting",
		Help:           "Asynchronous CloudStack jobs that are being waited for.",
		StabilityLevel: metrics.ALPHA,
	})
	jobDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "cloudstack_job_duration_seconds",
		Help: "Time from the submission of an asynchronous CloudStack job until its end was seen, " +
			"by command.",
		Buckets:        []float64{.1, .25, .5, 1, 2, 3, 5, 10, 20, 60, 120, 300, 600},
		StabilityLevel: metrics.ALPHA,
	}, []string{"command"})
)

// registerMetrics puts the metrics on the process's /metrics page.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(apiRequests, apiDuration, apiRetries, jobsWaiting, jobDuration)
})

// observe counts one HTTP exchange and calls the observer.
func (c *Client) observe(command string, d time.Duration, res result) {
	code := "none"
	if res.status != 0 {
		code = strconv.Itoa(res.status)
	}
	apiRequests.WithLabelValues(command, code).Inc()
	apiDuration.WithLabelValues(command).Observe(d.Seconds())
	if c.observer != nil {
		c.observer(Observation{res.status,
			res.err != nil && res.status == 0 && !errors.Is(res.err.Err, context.Canceled)})
	}
}
