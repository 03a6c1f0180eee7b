// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/recordings"
)

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// TestCompare finds members that were never recorded and members of another type, also in the result of a job.
func TestCompare(t *testing.T) {
	t.Parallel()
	c, err := Load(false, "../../../pkg/simulator/testdata/golden")
	require.NoError(t, err)
	job := `{"queryasyncjobresultresponse":{"cmd":"org.apache.cloudstack.api.command.user.loadbalancer.CreateLoadBalancerRuleCmd","jobstatus":1,"jobresult":{"loadbalancer":{"id":"x",%s}}}}`
	for name, s := range map[string]struct {
		command, answer string
		want            []string
	}{
		"known": {"listZones",
			`{"listzonesresponse":{"count":1,"zone":[{"id":"x","name":"z","tags":[]}]}}`, nil},
		"a refusal": {"listZones",
			`{"listzonesresponse":{"uuidList":[],"errorcode":431,"cserrorcode":9999,"errortext":"no"}}`, nil},
		"a new member": {"listZones", `{"listzonesresponse":{"count":1,"zone":[{"id":"x","colour":{"red":1}}]}}`,
			[]string{"listZones: zone[].colour (object) is not known"}},
		"another type": {"listZones", `{"listzonesresponse":{"count":"1"}}`,
			[]string{"listZones: count is string, known as number"}},
		"a new command": {"listMoons", `{"listmoonsresponse":{"count":1,"moon":[]}}`,
			[]string{"listMoons: the whole answer (object) is not known"}},
		"a job's result": {"queryAsyncJobResult", strings.Replace(job, "%s", `"name":"n"`, 1), nil},
		"a new member of it": {"queryAsyncJobResult", strings.Replace(job, "%s", `"weight":3`, 1),
			[]string{"job of CreateLoadBalancerRule: loadbalancer.weight (number) is not known"}},
	} {
		assert.Equal(t, s.want, c.Check(s.command, parse(t, s.answer)), name)
		assert.Empty(t, c.Check(s.command, parse(t, s.answer)), "%s, again", name)
	}
}

// TestRecorder writes a recording that contains no id, key, address or name of a place.
func TestRecorder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := NewRecorder(dir)
	require.NoError(t, err)
	key := strings.Repeat("kEy_-", 18)
	answer := parse(t,
		`{"getuserkeysresponse":{"userkeys":{"apikey":"`+key+`","secretkey":"`+key+`"},"note":"key `+key+
			`","zonename":"berlin-1","ip":"198.51.100.7",
		"id":"7b1f5c40-0000-4111-8111-aaaaaaaaaaaa","again":"7B1F5C40-0000-4111-8111-aaaaaaaaaaaa","netmask":"255.255.255.0","count":3}}`)

	params := url.Values{
		"command":   {"getUserKeys"},
		"id":        {"7b1f5c40-0000-4111-8111-aaaaaaaaaaaa"},
		"apikey":    {key},
		"signature": {"c2ln"},
	}

	require.NoError(t, r.Write("getUserKeys", "admin", params, 200, "application/json;charset=utf-8", answer))
	job := parse(t,
		`{"queryasyncjobresultresponse":{"cmd":"org.apache.cloudstack.api.command.user.vpc.CreateVPCCmd","jobstatus":2,"jobresult":{}}}`)
	require.NoError(t, r.Write("queryAsyncJobResult", "admin", nil, 200, "application/json;charset=utf-8", job))
	if _, err := os.Stat(filepath.Join(dir, "createVPC.new-1.job-failure.json")); err != nil {
		t.Error(err)
	}

	text, err := os.ReadFile(filepath.Join(dir, "getUserKeys.new-1.json"))
	require.NoError(t, err)
	for _, secret := range []string{"kEy_", "c2ln", "berlin", "198.51.100", "7b1f5c40", "7B1F5C40"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%q is in the recording:\n%s", secret, text)
		}
	}

	var back recordings.Recording
	if err := json.Unmarshal(text, &back); err != nil || back.Command != "getUserKeys" || back.HTTPStatus != 200 {
		t.Errorf("%+v, %v", back, err)
	}

	if n := strings.Count(string(text), "00000000-0000-4000-8000-000000000001"); n != 3 ||
		!strings.Contains(string(text), "255.255.255.0") {
		t.Errorf("the id appears %d times, want 3, and the netmask stays:\n%s", n, text)
	}
}
