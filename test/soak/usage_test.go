// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/testenv"
)

const mib = 1 << 20

// gauges are the metrics that must not grow with the process's age, apart from a quarter and some slack.
var gauges = [3]struct {
	metric, what string
	slack        float64
}{
	{"go_goroutines", "goroutines", 50},
	{"go_memstats_heap_inuse_bytes", "heap", 16 * mib},
	{"process_resident_memory_bytes", "resident memory", 32 * mib},
}

// usage is what the controller's process uses, by gauges.
type usage [len(gauges)]float64

// usage reads the metrics several times, and returns the medians.
func (r *run) usage() (out usage) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- the controller's self-signed certificate, on loopback
	}}
	defer client.CloseIdleConnections()
	const readings = 5
	var all [len(gauges)][]float64
	for range readings {
		var resp *http.Response
		require.NoError(r, testenv.Wait(r.Context(), settle, "the controller's metrics", func(context.Context) (err error) {
			resp, err = client.Get(fmt.Sprintf("https://%s:%d/metrics", r.host, metricsPort))
			return err
		}))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		require.NoError(r, errors.Join(err, resp.Body.Close()))
		for i, g := range gauges {
			all[i] = append(all[i], families[g.metric].GetMetric()[0].GetGauge().GetValue())
		}
		time.Sleep(time.Second)
	}
	for i := range all {
		slices.Sort(all[i])
		out[i] = all[i][readings/2]
	}
	return out
}

// grown returns an error that names the metrics that have grown.
func grown(early, late usage) (err error) {
	for i, g := range gauges {
		if late[i] > early[i]*1.25+g.slack {
			err = errors.Join(err, fmt.Errorf("the controller grows: %s from %.0f to %.0f", g.what, early[i], late[i]))
		}
	}
	return err
}

func TestGrowthIsSeen(t *testing.T) {
	t.Parallel()
	early := usage{100, 20 * mib, 60 * mib}
	require.NoError(t, grown(early, usage{107, 20 * mib, 60 * mib}))
	require.EqualError(t, grown(early, usage{400, 20 * mib, 260 * mib}),
		"the controller grows: goroutines from 100 to 400\nthe controller grows: resident memory from 62914560 to 272629760")
}
