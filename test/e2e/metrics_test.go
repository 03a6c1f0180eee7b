// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/pkg/testenv/golden"
	"github.com/csccm/csccm/test/processnode"
)

var update = flag.Bool("update", false, "write docs/metrics.md again")

type families = map[string]*dto.MetricFamily

// TestMetrics compares dashboard and alerts of the chart, and the page that describes the metrics, with what a controller
// serves that has initialised nodes and made a load balancer.
func TestMetrics(t *testing.T) {
	t.Parallel()
	served := scrape(t)
	rules := alerts(t)
	queries := map[string]string{} // by where they are
	for i := range rules {
		queries["alert "+rules[i].Alert] = rules[i].Expr
		for n, query := range rules[i].Runbook.Queries {
			queries[fmt.Sprintf("runbook of alert %s, query %d", rules[i].Alert, n+1)] = query
		}
	}
	for where, query := range panels(t) {
		queries[where] = query
	}
	used := map[string]bool{}
	for where, text := range queries {
		for _, problem := range problems(text, served, used) {
			t.Errorf("%s: %s: %s", where, text, problem)
		}
	}
	for name := range served {
		if strings.HasPrefix(name, "cloudstack_") && !used[name] {
			t.Errorf("no panel and no alert uses %s", name)
		}
	}

	golden.File(t, "../../docs/metrics.md", metricsPage(served, used), *update, "cd test && go test ./e2e -run TestMetrics -update")
}

// scrape returns what a controller that has worked serves at /metrics.
func scrape(t *testing.T) families {
	t.Helper()
	e := newDirectEnv(t, 3)
	e.register(t, 1, 3, nil)
	const port = "10258"
	host := processnode.NewPodIP(t.Context()) // where nobody else takes the port meanwhile
	address := net.JoinHostPort(host, port)
	file := filepath.Join(e.home, "ccm-a", "kubeconfig")
	p := e.controller(t, "ccm-a", "--secure-port="+port, "--bind-address="+host, "--authentication-kubeconfig="+file, "--authorization-kubeconfig="+file,
		"--drift-period=10s")
	e.leads(t, p)
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
	e.eventually(t, "metrics of a finished round", func(ctx context.Context) error {
		text, err := get(ctx, client, "https://"+address+"/metrics")
		if err != nil {
			return err
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if served, err = parser.TextToMetricFamilies(bytes.NewReader(text)); err != nil {
			return err
		}
		if r := served["cloudstack_drift_round_duration_seconds"]; r == nil || r.GetMetric()[0].GetHistogram().GetSampleCount() == 0 || served["cloudstack_job_duration_seconds"] == nil {
			return errors.New("no round has ended yet")
		}
		return nil
	})
	return served
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// alert is a rule of the chart's PrometheusRule.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Runbook     struct {
		See     []string `json:"see"`
		Queries []string `json:"queries"`
		End     string   `json:"end"`
	} `json:"runbook"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	raw, err := fs.ReadFile(charts.FS(), "monitoring/alerts.yaml")
	require.NoError(t, err)
	raw = bytes.ReplaceAll(raw, []byte("LEASE_NAME"), []byte(lease))
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.UnmarshalStrict(raw, &file))
	var all []alert
	for i := range file.Groups {
		all = append(all, file.Groups[i].Rules...)
	}
	for _, a := range all {
		if !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("alert %s: want a severity of info, warning or critical", a.Alert)
		}
	}
	return all
}

var labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

// panels are the queries of the dashboard, as Grafana would send them.
func panels(t *testing.T) map[string]string {
	t.Helper()
	raw, err := fs.ReadFile(charts.FS(), "monitoring/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Targets                  []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &dashboard))
	all := map[string]string{}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: its id %d is not the only one", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("panel %q has no query or no description", p.Title)
		}
		for i, target := range p.Targets {
			all[fmt.Sprintf("panel %q %d", p.Title, i)] = strings.NewReplacer("$job", ".+", "$__rate_interval", "5m").Replace(target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if m := labelValues.FindStringSubmatch(v.Definition); m != nil {
			all["variable "+v.Name] = m[1]
		}
	}
	return all
}
