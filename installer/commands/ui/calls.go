// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/version"
)

// metricsOf returns what a Pod of the controller serves at /metrics.
type metricsOf func(ctx context.Context, pod *corev1.Pod) ([]byte, error)

// rates are the controller's calls to CloudStack in the last minute, from readings of its metrics.
type rates struct {
	readings []reading // the oldest first
	shown    []model.Calls
	missing  *model.Missing
}

// reading are the counters of the controller's Pods at one moment, by the UID of the Pod.
type reading struct {
	at    time.Time
	total map[string]counts
}

type call struct{ command, code string }

type counts map[call]float64

const (
	// rateAfter is the least time between two readings.
	rateAfter = 10 * time.Second
	// ratesOver is the time that rates are about.
	ratesOver = time.Minute
)

// read reads the metrics of the controller's Pods, unless the last reading is young, and returns the rates of the last minute.
func (r rates) read(ctx context.Context, metrics metricsOf, pods []corev1.Pod, now time.Time) rates {
	if n := len(r.readings); n > 0 && now.Sub(r.readings[n-1].at) < rateAfter {
		return r
	}
	total, err := countsOf(ctx, metrics, pods)
	if err != nil {
		return rates{missing: &model.Missing{
			Part: "calls", Reason: "the controller's metrics cannot be read: " + err.Error(),
			Remedy: "see " + version.Pages + "docs/ui.md#what-it-reads, or let Prometheus read them: " + version.Pages + "docs/metrics.md",
		}}
	}
	out := rates{readings: append(slices.Clone(r.readings), reading{now, total})}
	// The oldest that is kept is the youngest that is at least a minute old.
	for len(out.readings) > 1 && now.Sub(out.readings[1].at) >= ratesOver {
		out.readings = out.readings[1:]
	}
	first := out.readings[0]
	if len(out.readings) == 1 {
		out.missing = &model.Missing{Part: "calls", Reason: "a rate needs two readings", Remedy: "wait some seconds"}
	} else {
		out.shown = perMinute(first.total, total, now.Sub(first.at))
	}
	return out
}

// perMinute returns the rates between two readings of the same Pods. A Pod that started again has counted from 0; one that was
// not read the last time has no rate yet.
func perMinute(before, now map[string]counts, passed time.Duration) []model.Calls {
	more := counts{}
	for pod, n := range now {
		last, known := before[pod]
		if !known {
			continue
		}
		for c, total := range n {
			if total >= last[c] {
				total -= last[c]
			}
			more[c] += total
		}
	}
	var out []model.Calls
	for c, n := range more {
		if n > 0 && passed > 0 {
			out = append(out, model.Calls{Command: c.command, Code: c.code, PerMinute: math.Round(n/passed.Minutes()*10) / 10})
		}
	}
	return out
}

// countsOf reads the counters of all Pods. Those that do not answer are left out as long as one does: only one replica leads.
func countsOf(ctx context.Context, metrics metricsOf, pods []corev1.Pod) (map[string]counts, error) {
	out := map[string]counts{}
	var failed error
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		raw, err := metrics(ctx, p)
		if err == nil {
			var n counts
			if n, err = countsIn(raw); err == nil {
				out[string(p.UID)] = n
			}
		}
		failed = cmp.Or(err, failed)
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, cmp.Or(failed, errors.New("no Pod of the controller runs"))
}

// countsIn reads the counter of calls in what a controller serves at /metrics.
func countsIn(raw []byte) (counts, error) {
	parser := expfmt.NewTextParser(prommodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("its metrics: %w", err)
	}
	out := counts{}
	for _, m := range families["cloudstack_api_requests_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		out[call{labels["command"], labels["code"]}] += m.GetCounter().GetValue()
	}
	return out, nil
}
