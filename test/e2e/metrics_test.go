// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/pkg/testenv/golden"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/processnode"
)

var update = flag.Bool("update", false, "write docs/metrics.md again")

type families = map[string]*dto.MetricFamily

// TestMetrics compares the chart's dashboard and alerts, and the page about metrics, with what a controller serves
// after it has initialised nodes and created a load balancer.
func TestMetrics(t *testing.T) {
	t.Parallel()
	served, used := scrape(t), map[string]bool{}
	for where, query := range queries(t) {
		require.Empty(t, problems(query, served, used), "%s: %s", where, query)
	}
	for name := range served {
		if strings.HasPrefix(name, "cloudstack_") && !used[name] {
			t.Errorf("no panel and no alert uses %s", name)
		}
	}
	golden.File(t, "../../docs/metrics.md", metricsPage(served, used), *update,
		"cd test && go test ./e2e -run TestMetrics -update")
}

// scrape returns the metrics of a controller that has done some work.
func scrape(t *testing.T) families {
	t.Helper()
	e := newDirectEnv(t, 3)
	e.register(t, 1, 3, nil)
	const port = "10258"
	host := processnode.NewPodIP(t.Context()) // no other program takes a port of this address meanwhile
	address := net.JoinHostPort(host, port)
	file := filepath.Join(e.home, "ccm-a", "kubeconfig")
	p := e.controller(t, "ccm-a", "--secure-port="+port, "--bind-address="+host, "--authentication-kubeconfig="+file,
		"--authorization-kubeconfig="+file,
		"--drift-period=10s")
	e.says(t, p, leads)
	e.initialised(t, 3)
	e.service(t, "web", 80, 443)
	e.address(t, "web")

	rest, err := e.ClientConfig("scraper", "system:masters")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(rest.CertData, rest.KeyData)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, // #nosec G402 -- the controller signs its own
	}}}
	defer client.CloseIdleConnections()
	var served families
	e.eventually(t, "metrics of a finished round", func(ctx context.Context) {
		req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody))
		resp := must.Get(client.Do(req))
		defer func() { _ = resp.Body.Close() }()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		served = must.Get(parser.TextToMetricFamilies(resp.Body))
		r, jobs := served["cloudstack_drift_round_duration_seconds"], served["cloudstack_job_duration_seconds"]
		must.Be(r != nil && r.GetMetric()[0].GetHistogram().GetSampleCount() > 0 && jobs != nil,
			"no round has ended yet")
	})
	return served
}

var labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

// queries returns the queries of the alerts and their runbooks, and those of the dashboard as Grafana would send them,
// by their place.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	raw, err := fs.ReadFile(charts.FS(), "monitoring/alerts.yaml")
	require.NoError(t, err)
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Runbook     struct{ Queries []string }
			}
		}
	}

	require.NoError(t, yaml.Unmarshal(bytes.ReplaceAll(raw, []byte("LEASE_NAME"), []byte(lease)), &alerts))
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			all["alert "+rule.Alert] = rule.Expr
			for n, query := range rule.Runbook.Queries {
				all[fmt.Sprintf("runbook of alert %s, query %d", rule.Alert, n+1)] = query
			}
		}
	}

	raw, err = fs.ReadFile(charts.FS(), "monitoring/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}

	require.NoError(t, json.Unmarshal(raw, &dashboard))
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			all[fmt.Sprintf("panel %q %d", p.Title,
				i)] = strings.NewReplacer("$job", ".+", "$__rate_interval", "5m").Replace(target.Expr)
		}
	}

	for _, v := range dashboard.Templating.List {
		if m := labelValues.FindStringSubmatch(v.Definition); m != nil {
			all["variable "+v.Name] = m[1]
		}
	}

	return all
}
