// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	commandQueryJob = "queryAsyncJobResult"
	commandListJobs = "listAsyncJobs"
)

// Submitted is the first answer of an asynchronous call. ID is the ID of the object that the call creates, if any;
// JobID is the job to wait for. Command is set for a call that failed, too.
type Submitted struct {
	Command string `json:"-"`
	ID      string `json:"id"`
	JobID   string `json:"jobid"`
}

// JobStatus is the state of an asynchronous job.
type JobStatus int

// The states of queryAsyncJobResult.
const (
	JobPending   JobStatus = 0
	JobSucceeded JobStatus = 1
	JobFailed    JobStatus = 2
	JobCancelled JobStatus = 3
)

// Job is the answer of queryAsyncJobResult.
type Job struct {
	ID         string
	Status     JobStatus
	ResultCode int
	ErrorText  string // of a failed job; empty when the server gave none
	InstanceID string // object that the job works on; empty when the server does not say
	// Acquired is the address as a job of associateIpAddress left it; nil for other jobs. Its State may be out of date.
	Acquired *PublicIP

	hasResult bool // false for a job that a restart of the management server broke off
}

// jobJSON is queryAsyncJobResult's answer and an item of listAsyncJobs.
type jobJSON struct {
	ID         string         `json:"jobid"`
	Status     int            `json:"jobstatus"`
	ResultCode int            `json:"jobresultcode"`
	Result     jsontext.Value `json:"jobresult"`
	InstanceID string         `json:"jobinstanceid"`
}

func (j *jobJSON) state(jobID string, secrets []string) *Job {
	s := &Job{ID: cmp.Or(j.ID, jobID), Status: JobStatus(j.Status), ResultCode: j.ResultCode, InstanceID: j.InstanceID}
	s.hasResult = len(j.Result) > 0 && string(j.Result) != "null"
	if s.Status == JobSucceeded {
		var result struct {
			IP PublicIP `json:"ipaddress"`
		}
		if s.hasResult && json.Unmarshal(j.Result, &result, decoding) == nil && result.IP.ID != "" {
			s.Acquired = &result.IP
		}
	}

	if s.Status == JobFailed || s.Status == JobCancelled {
		var eb errorBody
		var text string
		switch {
		case !s.hasResult:
		case j.Result.Kind() == '"' && json.Unmarshal(j.Result, &text) == nil:
			s.ErrorText = sanitized(text, secrets...)
		case json.Unmarshal(j.Result, &eb, decoding) == nil:
			s.ErrorText = sanitized(eb.Text, secrets...)
			if s.ResultCode == 0 {
				s.ResultCode = eb.ErrorCode
			}
		}
	}

	return s
}

// err returns the failure of a job that has ended, or nil if it succeeded.
func (s *Job) err(command string) error {
	e := &Error{Kind: KindJobFailed, Command: command, HTTPCode: s.ResultCode, JobID: s.ID, MayHaveHappened: true}
	switch s.Status {
	case JobSucceeded, JobPending:
		return nil
	case JobCancelled:
		e.Text = cmp.Or(s.ErrorText, "the job was cancelled")
	case JobFailed:
		e.Text, e.MayHaveHappened = cmp.Or(s.ErrorText, "the job failed, and CloudStack gave no reason"), false
		if !s.hasResult { // nothing was rolled back: the incomplete resource stays
			e.Kind, e.Text, e.MayHaveHappened = KindTransient, "the management server aborted the job, probably "+
				"by a restart", true
		}
	default:
		e.Kind, e.Text = KindUnknown, fmt.Sprintf("the job has the unknown status %d", int(s.Status))
	}
	return e
}

// QueryJob reads a job once, whatever its state; a failed job is no error here. A job that the server does not know, or
// no longer knows after a day, is KindNotFound.
func (c *Client) QueryJob(ctx context.Context, jobID string) (*Job, error) {
	var j jobJSON
	if err := c.Call(ctx, commandQueryJob, map[string]string{"jobid": jobID}, &j); err != nil {
		return nil, err
	}
	return j.state(jobID, c.secrets()), nil
}

// runningJobs returns the IDs of the caller's running jobs; the server lists no others. If a job ends while the server
// counts and lists, the count is larger than the list. There is a next page only if this one is full.
func (c *Client) runningJobs(ctx context.Context) (sets.Set[string], error) {
	size := c.currentPageSize()
	first := Params{"page": "1", "pagesize": strconv.Itoa(size)}
	jobs, count, err := listPage[jobJSON](ctx, c, commandListJobs, "asyncjobs", first, newRoom())
	if err == nil && len(jobs) >= size && count > len(jobs) || c.learnPageSize(err, size) {
		jobs, err = List(ctx, c, commandListJobs, "asyncjobs", nil, func(j *jobJSON) string { return j.ID })
	}
	if err != nil {
		return nil, err
	}
	running := make(sets.Set[string], len(jobs))
	for i := range jobs {
		if JobStatus(jobs[i].Status) == JobPending {
			running.Insert(jobs[i].ID)
		}
	}
	return running, nil
}

// Delete sends the asynchronous command that deletes an object by its id. An object that no longer exists is
// KindNotFound.
func (c *Client) Delete(ctx context.Context, command, id string) (Submitted, error) {
	return c.Submit(ctx, command, Params{"id": id})
}

// Submit sends an asynchronous command and checks that the server has answered with a job.
func (c *Client) Submit(ctx context.Context, command string, f Params) (Submitted, error) {
	s := Submitted{Command: command}
	if err := c.Call(ctx, command, f, &s); err != nil {
		return s, err
	}
	if s.JobID == "" {
		return s, BadAnswer(command, "the answer names no job")
	}
	return s, nil
}
