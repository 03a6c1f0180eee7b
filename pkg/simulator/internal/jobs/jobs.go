// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobs runs asynchronous jobs, and lists them.
package jobs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/events"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Submit stores the job and returns the command's answer.
func Submit(c *wire.Call, spec *wire.JobSpec) (any, error) {
	j := &store.Job{
		Entity:       store.Entity{Created: c.Now},
		Caller:       c.Caller,
		Command:      c.API.Name,
		Class:        c.Cmd.JavaClass(c.Caller.RootAdmin()),
		InstanceType: spec.InstanceType,
		InstanceID:   spec.InstanceID,
		Subject:      spec.Subject,
		Run:          spec.Run,
		Undo:         spec.Undo,
		Steps:        spec.Steps,
	}

	if id, ok := c.Args["customjobid"]; ok {
		parsed, err := uuid.Parse(id)
		if err != nil || len(id) != 36 {
			// As in CloudStack, the objects of the create phase remain.
			return nil, wire.Invalid("UUID: %s doesn't follow the UUID format", id)
		}
		if _, taken := c.St.Jobs.Get(id); taken {
			return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "%s", wire.InternalErrorText)
		}
		j.UUID = parsed.String()
	}

	if len(spec.Steps) == 0 {
		j.Last = c.Server.Profile().JobTime(c.API.Name)
	}

	if spec.After.After(c.Now.Add(j.Last)) {
		j.Last = spec.After.Sub(c.Now)
	}

	if spec.Begin != nil {
		running := c.Server.Profile().JobTime(c.API.Name) * 2 / 3
		j.Steps = []store.JobStep{{Takes: j.Last - running, Do: func(now time.Time) error {
			spec.Begin(now)
			return nil
		}}}
		j.Last = running
	}

	j.Run = c.ChecksCustomID(j.Run)
	applyFaults(c, spec, j)
	j.Events = events.RecordScheduled(c, spec)
	c.St.Jobs.Add(j)
	schedule(c.St, j, c.Now)
	c.St.Began(j)
	return wire.Submitted{ID: spec.ObjectID, JobID: j.UUID}, nil
}

// RunDue runs the steps and ends of jobs that are due. Jobs need no goroutines: only calls can see their effects, and
// every call runs RunDue first.
func RunDue(st *store.State, now time.Time) {
	for len(st.Due) > 0 && !st.Due[0].Due.After(now) {
		j := st.Due[0]
		st.Due = st.Due[1:]
		if len(j.Steps) == 0 {
			end(st, j, j.Due, j.Run)
			continue
		}
		advance(st, j, j.Due, j.Steps[0].Do)
	}
	st.PurgeJobs(now)
}

// schedule enqueues the job for the end of its next step, or for its own end after the last step.
func schedule(st *store.State, j *store.Job, now time.Time) {
	takes := j.Last
	if len(j.Steps) > 0 {
		takes = j.Steps[0].Takes
		if j.Steps[0].Outside != nil {
			st.Outside = append(st.Outside, j)
		}
	}
	j.Due, j.Ends = now.Add(takes), now.Add(j.Remaining())
	st.Enqueue(j)
}

// advance runs the effect of the job's current step. An error ends the job.
func advance(st *store.State, j *store.Job, now time.Time, effect func(now time.Time) error) {
	if err := effect(now); err != nil {
		end(st, j, now, func(time.Time) (any, error) { return nil, err })
		return
	}
	j.Steps, j.Passed = j.Steps[1:], j.Passed+1
	schedule(st, j, now)
}

// end ends the job with the result of run.
func end(st *store.State, j *store.Job, now time.Time, run func(now time.Time) (any, error)) {
	subject := j.Subject
	st.Running = j // the result still shows the job as pending on its object
	finish(j, now, run)
	st.Running = nil
	st.Ended(j, subject)
	j.Events.End(st, now, j.Status == store.JobFailed)
}

// finish runs the job's work and records its result.
func finish(j *store.Job, now time.Time, run func(now time.Time) (any, error)) {
	res, err := run(now)
	j.Completed = now
	j.Status = store.JobDone
	if err != nil {
		e := wire.AsAPIError(err)
		j.Status, j.Code = store.JobFailed, e.InJob()
		type failure struct {
			ErrorCode int    `json:"errorcode"`
			ErrorText string `json:"errortext,omitempty"`
		}
		f := failure{ErrorCode: j.Code, ErrorText: e.Text}
		if e.NoText {
			f.ErrorText = ""
		}
		res = f
		if j.Undo != nil {
			j.Undo()
		}
	}

	if j.Result, err = wire.Marshal(res); err != nil {
		j.Status, j.Code, j.Result = store.JobFailed, wire.CodeInternal, nil
	}

	j.Run, j.Undo, j.Subject, j.Steps = nil, nil, nil, nil
}

// jobView is the answer of queryAsyncJobResult and an item of listAsyncJobs.
type jobView struct {
	AccountID     string          `json:"accountid"`
	Account       string          `json:"account"`
	DomainID      string          `json:"domainid"`
	DomainPath    string          `json:"domainpath"`
	UserID        string          `json:"userid"`
	Cmd           string          `json:"cmd"`
	ProcStatus    int             `json:"jobprocstatus"`
	ResultCode    int             `json:"jobresultcode"`
	ResultType    string          `json:"jobresulttype,omitempty"`
	Result        json.RawMessage `json:"jobresult,omitempty"`
	InstanceType  string          `json:"jobinstancetype,omitempty"`
	InstanceID    string          `json:"jobinstanceid,omitempty"`
	ManagementID  string          `json:"managementserverid,omitempty"`
	ManagementSrv string          `json:"managementservername,omitempty"`
	Created       *wire.Timestamp `json:"created"`
	Completed     *wire.Timestamp `json:"completed,omitempty"`
	JobID         string          `json:"jobid"`
	Status        int             `json:"jobstatus"`
}

func viewJob(c *wire.Call, j *store.Job) jobView {
	a := j.Caller.Account
	v := jobView{
		AccountID:    a.UUID,
		Account:      a.Name,
		DomainID:     a.Domain.UUID,
		DomainPath:   a.Domain.Display(),
		UserID:       j.Caller.User.UUID,
		Cmd:          "org.apache.cloudstack.api.command." + j.Class,
		ResultCode:   j.Code,
		Result:       j.Result,
		InstanceType: j.InstanceType,
		InstanceID:   j.InstanceID,
		Created:      wire.Stamp(j.Created),
		Completed:    wire.Stamp(j.Completed),
		JobID:        j.UUID,
		Status:       j.Status,
	}

	if j.Result != nil {
		v.ResultType = "object"
	}

	if !resolves(c.St, j.InstanceType, j.InstanceID) {
		v.InstanceID = ""
	}

	if j.Status == store.JobPending || j.Broken {
		v.ManagementID, v.ManagementSrv = c.St.MsID, "localhost"
	}

	return v
}

// resolves reports whether the object of a job still exists. Answers omit the ids of deleted rules.
func resolves(st *store.State, kind, id string) bool {
	if kind != "FirewallRule" {
		return true
	}
	obj, _ := store.AnyRule{St: st}.FindUUID(id)
	return obj != nil
}

func queryAsyncJobResult(c *wire.Call) (any, error) {
	j := wire.Arg[*store.Job](c, "jobid")
	if j == nil {
		return nil, c.BadRef("jobid", c.Str("jobid"))
	}
	if !c.Access(j.Caller.Account) {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Account %s is not authorized to see job id=%d",
			store.AccountText(c.Caller.Account), j.ID)
	}
	return viewJob(c, j), nil
}

// listAsyncJobs returns pending jobs only. Completed jobs can only be queried by id.
func listAsyncJobs(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(false)
	if err != nil {
		return nil, err
	}

	from, err := events.Date(c, "startdate", false)
	if err != nil {
		return nil, err
	}

	var out []*store.Job
	for _, j := range c.St.Jobs.Rows {
		if j.Status != store.JobPending || !in(j.Caller.Account) || !events.InDates(j.Created, from, time.Time{}) {
			continue
		}
		if k := c.Str("keyword"); k != "" && !strings.Contains(strings.ToLower(j.Class), strings.ToLower(k)) {
			continue
		}
		out = append(out, j)
	}

	return wire.Page(c, "asyncjobs", out, func(j *store.Job) jobView { return viewJob(c, j) })
}

// BreakOff fails a job that a restart interrupted. Its changes are not undone.
func BreakOff(j *store.Job, now time.Time) {
	j.Status, j.Code, j.Completed, j.Broken = store.JobFailed, wire.CodeInternal, now, true
	j.Run, j.Undo, j.Subject, j.Steps = nil, nil, nil, nil
}

// Outside is the work of a job's step that runs without the simulator's lock.
type Outside struct {
	job  *store.Job
	step int // index of the step in the job
	work func(ctx context.Context) func(now time.Time) error
}

// TakeOutside returns the work that steps have to do without the lock. It returns each work once.
func TakeOutside(st *store.State) []Outside {
	var out []Outside
	for _, j := range st.Outside {
		if len(j.Steps) > 0 && j.Steps[0].Outside != nil {
			out = append(out, Outside{job: j, step: j.Passed, work: j.Steps[0].Outside})
		}
	}
	st.Outside = nil
	return out
}

// Run runs the work. It returns the effect that ends the step.
func (o Outside) Run(ctx context.Context) func(now time.Time) error { return o.work(ctx) }

// Resume ends the step with the effect that Run returned, unless the job has ended or its step took too long.
func (o Outside) Resume(st *store.State, now time.Time, effect func(now time.Time) error) {
	i := slices.Index(st.Due, o.job)
	if i < 0 || o.job.Passed != o.step {
		return
	}
	st.Due = slices.Delete(st.Due, i, i+1)
	advance(st, o.job, now, effect)
}

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "queryAsyncJobResult", Run: queryAsyncJobResult},
	{Name: "listAsyncJobs", Run: listAsyncJobs},
}
