// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
	"github.com/csccm/csccm/pkg/cloudstack/internal/sanitize"
)

const (
	commandQueryJob = "queryAsyncJobResult"
	commandListJobs = "listAsyncJobs"
)

// jobJSON is queryAsyncJobResult's answer and an item of listAsyncJobs.
type jobJSON struct {
	ID         string          `json:"jobid"`
	Status     flex.Int        `json:"jobstatus"`
	ResultCode flex.Int        `json:"jobresultcode"`
	Result     json.RawMessage `json:"jobresult"`
	InstanceID string          `json:"jobinstanceid"`
}

// jobState is a Job with what its error needs.
type jobState struct {
	Job
	hasResult bool // false for a job that a restart of the management server broke off
}

func (j *jobJSON) state(jobID string, secrets []string) jobState {
	s := jobState{Job: Job{ID: cmp.Or(j.ID, jobID), Status: JobStatus(j.Status), ResultCode: int(j.ResultCode), InstanceID: j.InstanceID}}
	s.hasResult = len(j.Result) > 0 && string(j.Result) != "null"
	if s.Status == JobSucceeded {
		var result struct {
			IP publicIPJSON `json:"ipaddress"`
		}
		if s.hasResult && json.Unmarshal(j.Result, &result) == nil && result.IP.ID != "" {
			ip := result.IP.toPublicIP()
			s.Acquired = &ip
		}
	}
	if s.Status == JobFailed || s.Status == JobCancelled {
		var eb errorBody
		var text string
		switch {
		case !s.hasResult:
		case json.Unmarshal(j.Result, &text) == nil:
			s.ErrorText = sanitize.Text(text, secrets...)
		case json.Unmarshal(j.Result, &eb) == nil:
			s.ErrorText = sanitize.Text(eb.Text, secrets...)
			if s.ResultCode == 0 {
				s.ResultCode = int(eb.ErrorCode)
			}
		}
	}
	return s
}

// ended reports whether the job will not change any more.
func (s *jobState) ended() bool { return s.Status != JobPending }

// err is the failure of an ended job, nil for a success.
func (s *jobState) err(command string) error {
	switch s.Status {
	case JobSucceeded, JobPending:
		return nil
	case JobCancelled:
		return &Error{Kind: KindJobFailed, Command: command, HTTPCode: s.ResultCode, JobID: s.ID, Text: cmp.Or(s.ErrorText, "the job was cancelled"), MayHaveHappened: true}
	case JobFailed:
		if !s.hasResult {
			// Nothing was rolled back: the half-done resource stays as it was.
			return &Error{
				Kind: KindTransient, Command: command, HTTPCode: s.ResultCode, JobID: s.ID, MayHaveHappened: true,
				Text: "the management server broke the job off, probably by a restart",
			}
		}
		return &Error{Kind: KindJobFailed, Command: command, HTTPCode: s.ResultCode, JobID: s.ID, Text: cmp.Or(s.ErrorText, "the job failed without a reason given")}
	}
	return &Error{Kind: KindUnknown, Command: command, HTTPCode: s.ResultCode, JobID: s.ID, Text: fmt.Sprintf("the job has the unknown status %d", int(s.Status)), MayHaveHappened: true}
}

// QueryJob reads a job once, whatever its state; a failed job is no error here.
// A job the server does not know (any more: they are kept for a day) is KindNotFound.
func (c *Client) QueryJob(ctx context.Context, jobID string) (*Job, error) {
	s, err := c.queryJob(ctx, jobID)
	if err != nil {
		return nil, err
	}
	return &s.Job, nil
}

func (c *Client) queryJob(ctx context.Context, jobID string) (*jobState, error) {
	var j *jobJSON
	if err := c.call(ctx, commandQueryJob, map[string]string{"jobid": jobID}, &j); err != nil {
		return nil, err
	}
	if j == nil {
		return nil, badAnswer(commandQueryJob, "the answer is empty")
	}
	s := j.state(jobID, c.secrets())
	return &s, nil
}

// runningJobs are the ids of the caller's jobs that still run; the server lists no others. One that ends while the
// server counts and lists makes the count larger than the list: only a full page has another after it.
func (c *Client) runningJobs(ctx context.Context) (map[string]struct{}, error) {
	size := c.currentPageSize()
	first := filter{"page": "1", "pagesize": strconv.Itoa(size)}
	jobs, count, err := listPage[jobJSON](ctx, c, commandListJobs, "asyncjobs", first)
	if err == nil && len(jobs) >= size && count > len(jobs) || c.learnPageSize(err, size) {
		jobs, err = listAll(ctx, c, commandListJobs, "asyncjobs", nil, func(j *jobJSON) string { return j.ID })
	}
	if err != nil {
		return nil, err
	}
	running := make(map[string]struct{}, len(jobs))
	for i := range jobs {
		if JobStatus(jobs[i].Status) == JobPending {
			running[jobs[i].ID] = struct{}{}
		}
	}
	return running, nil
}

// submit sends an asynchronous command and checks that the server has answered with a job.
func (c *Client) submit(ctx context.Context, command string, f filter) (Submitted, error) {
	var s Submitted
	if err := c.call(ctx, command, f, &s); err != nil {
		return Submitted{}, err
	}
	if s.JobID == "" {
		return s, &Error{
			Kind: KindTransient, Command: command, HTTPCode: http.StatusOK,
			Text: "the answer names no job", MayHaveHappened: true,
		}
	}
	return s, nil
}
