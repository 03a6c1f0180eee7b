// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/ui/picture"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/version"
)

// rates are the controller's calls to CloudStack per minute, from two readings of its metrics.
type rates struct {
	at    time.Time
	total map[call]float64
	shown []model.Calls
}

type call struct{ command, code string }

// rateAfter is the least time between two readings: a shorter one makes rates jump.
const rateAfter = 10 * time.Second

// read reads the metrics of the controller's Pods through the API server, and returns the rates since the last time.
func (r *rates) read(ctx context.Context, o Options, pods []corev1.Pod, f *picture.Facts) []model.Calls {
	if !r.at.IsZero() && f.At.Sub(r.at) < rateAfter {
		return r.shown
	}
	now, err := callsOf(ctx, o, pods)
	if err != nil {
		*r = rates{}
		f.Missing = append(f.Missing, model.Missing{
			Part: "calls", Reason: "the controller's metrics cannot be read through the API server: " + err.Error(),
			Remedy: "let Prometheus read them: " + version.Pages + "docs/metrics.md",
		})
		return nil
	}
	if r.total == nil {
		f.Missing = append(f.Missing, model.Missing{Part: "calls", Reason: "a rate needs two readings", Remedy: "wait some seconds"})
	}
	r.shown = nil
	if minutes := f.At.Sub(r.at).Minutes(); r.total != nil && minutes > 0 {
		for c, n := range now {
			if more := n - r.total[c]; more > 0 {
				r.shown = append(r.shown, model.Calls{Command: c.command, Code: c.code, PerMinute: float64(int(more/minutes*10+0.5)) / 10})
			}
		}
	}
	r.at, r.total = f.At, now
	return r.shown
}

func callsOf(ctx context.Context, o Options, pods []corev1.Pod) (map[call]float64, error) {
	if len(pods) == 0 {
		return nil, errors.New("the controller has no Pod")
	}
	out := map[call]float64{}
	for i := range pods {
		p := &pods[i]
		raw, err := o.Kube.CoreV1().Pods(p.Namespace).ProxyGet("https", p.Name, strconv.Itoa(check.PortOf(p)), "metrics", nil).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask Pod %s: %w", p.Name, err)
		}
		parser := expfmt.NewTextParser(prommodel.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("metrics of Pod %s: %w", p.Name, err)
		}
		family := families["cloudstack_api_requests_total"]
		for _, m := range family.GetMetric() {
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
