// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Job states.
const (
	jobPending = 0
	jobDone    = 1
	jobFailed  = 2
)

// jobSpec is what an asynchronous command hands back after its create phase.
type jobSpec struct {
	objectID     string // set for async-create commands: the new object's UUID
	instanceType string // shown as jobinstancetype; "" leaves both members out
	instanceID   string
	subject      any // the object whose list items carry jobid and jobstatus while the job is pending
	// begin is seen while the job runs: it happens when a part of the job's run time has passed.
	begin func(now time.Time)
	// run does the work when the job's time has come; its value becomes jobresult.
	run func(now time.Time) (any, error)
	// undo takes the create phase back when the job fails.
	undo func()
	// refused is how the job ends when the router refuses; "" for a general text.
	refused string
	// after delays the job until the moment given, if that is later than its own run time.
	after time.Time
}

// job is a row of async_job.
type job struct {
	entity
	caller       caller
	command      string
	class        string
	instanceType string
	instanceID   string
	subject      any
	due          time.Time // the moment of begin, then that of run
	ends         time.Time
	begin        func(now time.Time)
	run          func(now time.Time) (any, error)
	undo         func()
	broken       bool // the management server was restarted while the job ran
	events       *jobEvents

	status    int
	code      int
	result    json.RawMessage
	completed time.Time
}

// success is the jobresult of commands without an object, and the body of their synchronous siblings.
type success struct {
	Success bool `json:"success"`
}

// submit stores the job and returns the command's answer.
func (c *call) submit(spec *jobSpec) (any, error) {
	j := &job{
		entity: entity{created: c.now}, caller: c.caller, command: c.api.Name, class: c.cmd.class,
		instanceType: spec.instanceType, instanceID: spec.instanceID, subject: spec.subject, run: spec.run, undo: spec.undo,
	}
	if id, ok := c.args["customjobid"]; ok {
		parsed, err := uuid.Parse(id)
		if err != nil || len(id) != 36 {
			// What the create phase made stays behind, as on the real server.
			return nil, invalid("UUID: %s doesn't follow the UUID format", id)
		}
		if _, taken := c.st.jobs.get(id); taken {
			return nil, errf(codeInternal, csGeneric, "%s", internalErrorText)
		}
		j.uuid = parsed.String()
	}
	j.due = c.now.Add(c.server.latency.job(c.api.Name))
	if spec.after.After(j.due) {
		j.due = spec.after
	}
	j.begin = spec.begin
	j.run = c.checksCustomID(j.run)
	c.applyFaults(spec, j)
	if j.ends = j.due; j.begin != nil {
		j.due = j.ends.Add(-c.server.latency.job(c.api.Name) * 2 / 3)
	}
	j.events = c.recordScheduled(spec)
	c.st.jobs.add(j)
	c.st.enqueue(j)
	c.st.began(j)
	return submitted{ID: spec.objectID, JobID: j.uuid}, nil
}

// submitted is the answer of an asynchronous command.
type submitted struct {
	ID    string `json:"id,omitempty"`
	JobID string `json:"jobid"`
}

// enqueue keeps the pending jobs in the order in which they end.
func (st *state) enqueue(j *job) {
	i := sort.Search(len(st.due), func(i int) bool { return st.due[i].due.After(j.due) })
	st.due = append(st.due, nil)
	copy(st.due[i+1:], st.due[i:])
	st.due[i] = j
}

// nextDue is the time of the next job end in nanoseconds; 0 when nothing is pending.
func (st *state) nextDue() int64 {
	if len(st.due) == 0 {
		return 0
	}
	return st.due[0].due.UnixNano()
}

// runDue ends every job whose time has come. Jobs need no goroutines: their
// effect can only be seen by a call, and every call runs this first.
func (st *state) runDue(now time.Time) {
	for len(st.due) > 0 && !st.due[0].due.After(now) {
		j := st.due[0]
		st.due = st.due[1:]
		if j.begin != nil {
			j.begin(j.due)
			j.begin, j.due = nil, j.ends
			st.enqueue(j)
			continue
		}
		subject := j.subject
		st.running = j // its own object still shows it while the result is rendered
		j.finish(j.due)
		st.running = nil
		st.ended(j, subject)
		j.events.end(st, j.due, j.status == jobFailed)
	}
	st.purgeJobs(now)
}

// finish runs the job's work and records its end.
func (j *job) finish(now time.Time) {
	var res any
	var err error
	res, err = j.run(now)
	j.completed = now
	j.status = jobDone
	if err != nil {
		e := asAPIError(err)
		j.status, j.code = jobFailed, e.inJob()
		type failure struct {
			ErrorCode int    `json:"errorcode"`
			ErrorText string `json:"errortext,omitempty"`
		}
		f := failure{ErrorCode: j.code, ErrorText: e.text}
		if e.noText {
			f.ErrorText = ""
		}
		res = f
		if j.undo != nil {
			j.undo()
		}
	}
	if j.result, err = marshal(res); err != nil {
		j.status, j.code, j.result = jobFailed, codeInternal, nil
	}
	j.run, j.undo, j.subject = nil, nil, nil
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
	Created       *timestamp      `json:"created"`
	Completed     *timestamp      `json:"completed,omitempty"`
	JobID         string          `json:"jobid"`
	Status        int             `json:"jobstatus"`
}

func (c *call) jobView(j *job) jobView {
	a := j.caller.account
	v := jobView{
		AccountID: a.uuid, Account: a.name, DomainID: a.domain.uuid, DomainPath: a.domain.display(), UserID: j.caller.user.uuid,
		Cmd: "org.apache.cloudstack.api.command." + j.className(), ResultCode: j.code, Result: j.result,
		InstanceType: j.instanceType, InstanceID: j.instanceID, Created: stamp(j.created), Completed: stamp(j.completed),
		JobID: j.uuid, Status: j.status,
	}
	if j.result != nil {
		v.ResultType = "object"
	}
	if !c.st.resolves(j.instanceType, j.instanceID) {
		v.InstanceID = ""
	}
	if j.status == jobPending || j.broken {
		v.ManagementID, v.ManagementSrv = c.st.msID, "localhost"
	}
	return v
}

// resolves tells whether the object of a job still has a row: the answer
// leaves the id of a deleted rule out.
func (st *state) resolves(kind, id string) bool {
	if kind != "FirewallRule" {
		return true
	}
	obj, _ := anyRule{st}.findUUID(id)
	return obj != nil
}

// className is the Java class of the command: some have an own one for root admins.
func (j *job) className() string {
	if j.caller.rootAdmin() {
		if admin, ok := adminClasses[j.command]; ok {
			return admin
		}
	}
	return j.class
}

// adminClasses are the commands with a separate class for root admins.
var adminClasses = map[string]string{
	"associateIpAddress":    "admin.address.AssociateIPAddrCmdByAdmin",
	"disassociateIpAddress": "admin.address.DisassociateIPAddrCmdByAdmin",
	"createVPC":             "admin.vpc.CreateVPCCmdByAdmin",
	"updateVPC":             "admin.vpc.UpdateVPCCmdByAdmin",
	"updateNetwork":         "admin.network.UpdateNetworkCmdByAdmin",
	"deployVirtualMachine":  "admin.vm.DeployVMCmdByAdmin",
	"startVirtualMachine":   "admin.vm.StartVMCmdByAdmin",
	"stopVirtualMachine":    "admin.vm.StopVMCmdByAdmin",
	"rebootVirtualMachine":  "admin.vm.RebootVMCmdByAdmin",
	"destroyVirtualMachine": "admin.vm.DestroyVMCmdByAdmin",
	"scaleVirtualMachine":   "admin.vm.ScaleVMCmdByAdmin",

	"addNicToVirtualMachine":            "admin.vm.AddNicToVMCmdByAdmin",
	"removeNicFromVirtualMachine":       "admin.vm.RemoveNicFromVMCmdByAdmin",
	"updateDefaultNicForVirtualMachine": "admin.vm.UpdateDefaultNicForVMCmdByAdmin",
	"updateVMAffinityGroup":             "admin.affinitygroup.UpdateVMAffinityGroupCmdByAdmin",
}

func queryAsyncJobResult(c *call) (any, error) {
	j := arg[*job](c, "jobid")
	if j == nil {
		return nil, c.badRef("jobid", c.str("jobid"))
	}
	if !c.access(j.caller.account) {
		return nil, errf(codeAccount, csPermission, "Account %s is not authorized to see job id=%d", accountText(c.caller.account), j.id)
	}
	return c.jobView(j), nil
}

// listAsyncJobs shows running jobs only; finished ones are found by id alone.
func listAsyncJobs(c *call) (any, error) {
	in, err := c.ownerScope(false)
	if err != nil {
		return nil, err
	}
	from, err := c.date("startdate", false)
	if err != nil {
		return nil, err
	}
	var out []*job
	for _, j := range c.st.jobs.rows {
		if j.status != jobPending || !in(j.caller.account) || !inDates(j.created, from, time.Time{}) {
			continue
		}
		if k := c.str("keyword"); k != "" && !strings.Contains(strings.ToLower(j.className()), strings.ToLower(k)) {
			continue
		}
		out = append(out, j)
	}
	return page(c, "asyncjobs", out, c.jobView)
}
