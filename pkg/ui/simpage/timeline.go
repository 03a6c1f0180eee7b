// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
)

// timelineCalls is how many calls the time line has at most, before repeated calls become one entry.
const timelineCalls = 300

// subjects are the parameters that name the object of a call, in order of preference.
var subjects = []string{"id", "lbruleid", "publicipid", "ipaddressid", "virtualmachineid", "networkid",
	"associatednetworkid"}

// shown are the parameters that the time line shows. The ledger omits keys and passwords; other parameters, such as
// user data, are left out here.
var shown = []string{
	"name", "id", "ids", "ipaddress", "publicipid", "ipaddressid", "lbruleid", "publicport", "privateport", "startport",
	"endport", "protocol", "algorithm", "cidrlist", "virtualmachineid", "virtualmachineids", "networkid", "vpcid",
	"zoneid", "resourceids", "resourcetype", "max", "account", "projectid",
}

// timeline turns calls, newest first, into entries. Identical calls in a row with the same result become one entry.
func timeline(calls []simulator.Call, ids map[string]string) []model.Entry {
	var out []model.Entry
	for i := range min(len(calls), timelineCalls) {
		c := &calls[i]
		e := entry(c, ids)
		if n := len(out); n > 0 &&
			out[n-1].Reason == e.Reason &&
			out[n-1].Message == e.Message &&
			out[n-1].Object == e.Object &&
			out[n-1].Caller == e.Caller {
			out[n-1].Count, out[n-1].Milliseconds = max(out[n-1].Count, 1)+1, max(out[n-1].Milliseconds, e.Milliseconds)
			continue
		}
		out = append(out, e)
	}
	return out
}

func entry(c *simulator.Call, ids map[string]string) model.Entry {
	e := model.Entry{
		At:           c.At,
		Kind:         "call",
		Reason:       cmp.Or(c.Command, "(no command)"),
		Milliseconds: c.Took.Milliseconds(),
	}

	for _, name := range subjects {
		if id := ids[c.Params[name]]; id != "" {
			e.Object = id
			break
		}
	}

	result, failed := outcome(c)
	e.Warning = failed
	e.Caller = cmp.Or(c.Caller, "nobody")
	parts := []string{result}
	for _, name := range shown {
		if v := c.Params[name]; v != "" {
			parts = append(parts, name+"="+v)
		}
	}

	e.Message = strings.Join(parts, ", ")
	return e
}

// outcome describes the result of a call and reports whether the call failed.
func outcome(c *simulator.Call) (text string, failed bool) {
	switch {
	case c.Status == 0:
		return "the connection was cut", true
	case c.Status != http.StatusOK || c.ErrorCode != 0:
		return fmt.Sprintf("refused with %d", cmp.Or(c.ErrorCode, c.Status)), true
	case c.JobID == "":
		return "answered", false
	case c.JobStatus == 0:
		return "the job runs", false
	case c.JobStatus == 1:
		return "the job succeeded", false
	}
	return fmt.Sprintf("the job failed with %d", c.JobCode), true
}

// perMinute counts the calls of the last minute by command and result.
func perMinute(calls []simulator.Call, now time.Time) []model.Calls {
	counts := map[model.Calls]int{}
	for i := range calls {
		c := &calls[i]
		if now.Sub(c.At) >= time.Minute {
			continue
		}
		code := strconv.Itoa(cmp.Or(c.ErrorCode, c.Status))
		if c.Status == 0 {
			code = "cut"
		}
		counts[model.Calls{Command: c.Command, Code: code}]++
	}

	out := make([]model.Calls, 0, len(counts))
	for c, n := range counts {
		c.PerMinute = float64(n)
		out = append(out, c)
	}

	return out
}
