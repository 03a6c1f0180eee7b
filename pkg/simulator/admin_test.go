// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// control calls the admin endpoint.
func control(t *testing.T, base, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(text)
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{Name: "slow jobs", Job: time.Hour}})
	srv := httptest.NewServer(h.sim.AdminHandler())
	t.Cleanup(srv.Close)
	do := func(method, path, body string, status int) string {
		t.Helper()
		got, text := control(t, srv.URL, method, path, body)
		require.Equal(t, status, got, text)
		return text
	}
	vm := id(h.first(h.call(owner, "listVirtualMachines"), "virtualmachine"))
	do("DELETE", "/ledger", "", 204)

	require.JSONEq(t, `{"id":1,"fault":"listZones:error:nth=1","seen":0,"hits":0}`,
		do("POST", "/faults", `{"fault":"listZones:error:nth=1"}`, 201))
	h.fails(h.call(owner, "listZones"), 530, wire.CSGeneric, "Internal error")
	require.Contains(t, do("GET", "/faults", "", 200), `"seen":1,"hits":1`)
	require.Contains(t, do("POST", "/faults", `{"fault":"listZones:nothing"}`, 400), "kind")
	require.Contains(t, do("POST", "/faults", `{"faults":[]}`, 400), "unknown field")
	do("DELETE", "/faults/7", "", 404)
	do("DELETE", "/faults/x", "", 400)
	do("DELETE", "/faults/1", "", 204)
	do("POST", "/faults", `{"fault":"*:cut-before"}`, 201)
	do("DELETE", "/faults", "", 204)
	require.JSONEq(t, `{"faults":[]}`, do("GET", "/faults", "", 200))

	job := h.call(owner, "stopVirtualMachine", "id", vm).str("jobid")
	require.Contains(t, do("GET", "/healthz", "", 200), `"runningJobs":1`)
	do("POST", "/clock", `{"step":"2h"}`, 200)
	do("POST", "/clock", `{"step":"-2h"}`, 400)
	do("POST", "/clock", `{"leap":"2h"}`, 400)
	var ledger struct {
		Count  int            `json:"count"`
		Counts map[string]int `json:"counts"`
		Calls  []Call         `json:"calls"`
	}
	require.NoError(t, json.Unmarshal([]byte(do("GET", "/ledger?command=stop*&caller="+owner, "", 200)), &ledger))
	require.Equal(t, 1, ledger.Count)
	require.Equal(t, map[string]int{"stopVirtualMachine": 1}, ledger.Counts)
	require.Equal(t, job, ledger.Calls[0].JobID)
	require.Equal(t, store.JobDone, ledger.Calls[0].JobStatus)
	require.Equal(t, vm, ledger.Calls[0].Params["id"])
	require.NotContains(t, ledger.Calls[0].Params, "signature")
	require.Contains(t, do("GET", "/ledger?caller=nobody", "", 200), `"calls":[]`)

	h.call(owner, "startVirtualMachine", "id", vm)
	do("POST", "/restart", `{"away":"soon"}`, 400)
	do("POST", "/restart", `{"away":"20s"}`, 204)
	require.Contains(t, do("GET", "/healthz", "", 200), `"restarting"`)
	h.clock.Step(20 * time.Second)
	calls := h.sim.Ledger().Calls()
	require.Equal(t, store.JobFailed, calls[len(calls)-1].JobStatus)
	require.Equal(t, wire.CodeInternal, calls[len(calls)-1].JobCode)
	do("PUT", "/ledger", "", 405)
	do("GET", "/nope", "", 404)
}

// TestAdminRefusesBrowsers: a web page could make a browser send such requests.
func TestAdminRefusesBrowsers(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Clock: clock.RealClock{}})
	for want, change := range map[int]func(*http.Request){
		http.StatusForbidden:            func(r *http.Request) { r.Host = "rebound.example.com:8097" },
		http.StatusUnsupportedMediaType: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		http.StatusConflict:             func(*http.Request) {}, // this simulator uses the real clock
	} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8097/clock",
			bytes.NewReader([]byte(`{"step":"1h"}`)))
		r.Header.Set("Content-Type", "application/json")
		change(r)
		w := httptest.NewRecorder()
		h.sim.AdminHandler().ServeHTTP(w, r)
		require.Equal(t, want, w.Code, w.Body.String())
	}
}
