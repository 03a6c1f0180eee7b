// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJobErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		json     jobJSON
		kind     Kind
		code     int
		text     string
		happened bool
	}{
		"failed":                {jobJSON{Status: 2, ResultCode: 431, Result: []byte(`{"errorcode":431,"errortext":"Invalid protocol"}`)}, KindJobFailed, 431, "Invalid protocol", false},
		"failed without text":   {jobJSON{Status: 2, ResultCode: 530, Result: []byte(`{"errorcode":530}`)}, KindJobFailed, 530, "without a reason", false},
		"failed with bare text": {jobJSON{Status: 2, ResultCode: 530, Result: []byte(`"some text"`)}, KindJobFailed, 530, "some text", false},
		"code only in result":   {jobJSON{Status: 2, Result: []byte(`{"errorcode":533,"errortext":"x"}`)}, KindJobFailed, 533, "x", false},
		"server restarted":      {jobJSON{Status: 2, ResultCode: 530}, KindTransient, 530, "restart", true},
		"blocked too long":      {jobJSON{Status: 2, Result: []byte(`null`)}, KindTransient, 0, "broke the job off", true},
		"cancelled":             {jobJSON{Status: 3}, KindJobFailed, 0, "cancelled", true},
		"from the future":       {jobJSON{Status: 9}, KindUnknown, 0, "unknown status 9", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.json.state("j", nil)
			require.True(t, s.ended())
			e := asError(t, s.err("createTags"))
			require.Equal(t, tc.kind, e.Kind)
			require.Equal(t, tc.code, e.HTTPCode)
			require.Equal(t, "j", e.JobID)
			require.Equal(t, "createTags", e.Command)
			require.Equal(t, tc.happened, e.MayHaveHappened)
			require.Contains(t, e.Error(), tc.text)
		})
	}
	s := (&jobJSON{Status: 1, Result: []byte(`{"success":true}`)}).state("j", nil)
	require.NoError(t, s.err("x"))
	s = (&jobJSON{Status: 2, Result: []byte(`{"errortext":"apikey=abcdef"}`)}).state("j", nil)
	require.Equal(t, "apikey=REDACTED", s.ErrorText)
}

// A job that ends between the server's count and its list costs no second page; a full page has one.
func TestRunningJobsAsksForAnotherPageOnlyAfterAFullOne(t *testing.T) {
	t.Parallel()
	page := func(from, n, count int) string {
		var jobs []string
		for i := range n {
			jobs = append(jobs, fmt.Sprintf(`{"jobid":"j%d","jobstatus":0}`, from+i))
		}
		return fmt.Sprintf(`{"listasyncjobsresponse":{"count":%d,"asyncjobs":[%s]}}`, count, strings.Join(jobs, ","))
	}
	for _, c := range []struct {
		name        string
		pages       []string
		jobs, calls int
	}{
		{"one ended meanwhile", []string{page(0, 2, 3)}, 2, 1},
		{"all ended meanwhile", []string{`{"listasyncjobsresponse":{"count":2}}`}, 0, 1},
		{"none", []string{`{"listasyncjobsresponse":{}}`}, 0, 1},
		{"exactly a page", []string{page(0, 500, 500)}, 500, 1},
		{"two pages", []string{page(0, 500, 700), page(0, 500, 700), page(500, 200, 700)}, 700, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(func(n int, _ url.Values) reply { return jsonReply(200, c.pages[min(n, len(c.pages))-1]) })
			running, err := f.client(t).runningJobs(t.Context())
			require.NoError(t, err)
			require.Len(t, running, c.jobs)
			require.Len(t, f.recorded(), c.calls)
		})
	}
}
