// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/commands/ui/picture"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/version"
)

// rates are the controller's calls to CloudStack per minute, from two readings of its metrics.
type rates struct {
	at    time.Time
	total map[string]counts // by the UID of the Pod
	shown []model.Calls
}

type call struct{ command, code string }

type counts map[call]float64

// rateAfter is the least time between two readings: a shorter one makes rates jump.
const rateAfter = 10 * time.Second

// read reads the metrics of the controller's Pods, and returns the rates since the last time.
func (r *rates) read(ctx context.Context, o Options, pods []corev1.Pod, f *picture.Facts) []model.Calls {
	if !r.at.IsZero() && f.At.Sub(r.at) < rateAfter {
		return r.shown
	}
	now, err := countsOf(ctx, o, pods)
	if err != nil {
		*r = rates{}
		f.Missing = append(f.Missing, model.Missing{
			Part: "calls", Reason: "the controller's metrics cannot be read: " + err.Error(),
			Remedy: "see " + version.Pages + "docs/ui.md#what-it-reads, or let Prometheus read them: " + version.Pages + "docs/metrics.md",
		})
		return nil
	}
	if r.total == nil {
		f.Missing = append(f.Missing, model.Missing{Part: "calls", Reason: "a rate needs two readings", Remedy: "wait some seconds"})
	} else {
		r.shown = perMinute(r.total, now, f.At.Sub(r.at))
	}
	r.at, r.total = f.At, now
	return r.shown
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
func countsOf(ctx context.Context, o Options, pods []corev1.Pod) (map[string]counts, error) {
	if o.Metrics == nil {
		return nil, errors.New("there is no connection to Pods")
	}
	out := map[string]counts{}
	var failed error
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		raw, err := o.Metrics(ctx, p)
		if err == nil {
			out[string(p.UID)], err = countsIn(raw)
		}
		if err != nil {
			delete(out, string(p.UID))
			failed = err
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case failed == nil:
		return nil, errors.New("no Pod of the controller runs")
	}
	return nil, failed
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
		var c call
		for _, l := range m.GetLabel() {
			switch l.GetName() {
			case "command":
				c.command = l.GetValue()
			case "code":
				c.code = l.GetValue()
			}
		}
		out[c] += m.GetCounter().GetValue()
	}
	return out, nil
}

// remedy is what an error says is to be done.
func remedy(err error) string {
	var remedied interface{ Remedy() string }
	if errors.As(err, &remedied) {
		return remedied.Remedy()
	}
	return ""
}
