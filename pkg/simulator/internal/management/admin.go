// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

var managementRefs = map[string]store.RefKind{"id": store.RefManagement}

// managementView is the API object managementserver. The metrics command shows more of its fields.
type managementView struct {
	*managementMetrics
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	State     string          `json:"state"`
	Version   string          `json:"version"`
	JavaName  string          `json:"javadistribution"`
	Java      string          `json:"javaversion"`
	OS        string          `json:"osdistribution"`
	Start     *wire.Timestamp `json:"lastserverstart"`
	Stop      *wire.Timestamp `json:"lastserverstop"`
	Boot      *wire.Timestamp `json:"lastboottime"`
	Kernel    string          `json:"kernelversion"`
	ServiceIP string          `json:"serviceip"`
	IPAddress string          `json:"ipaddress"`
	Last      []string        `json:"lastagents,omitempty"`
	Agents    []string        `json:"agents,omitempty"`
	Count     *int            `json:"agentscount,omitempty"`
	Pending   *int            `json:"pendingjobscount,omitempty"`
}

// managementMetrics are the metrics of the management server; the values are those of the simulator's process.
type managementMetrics struct {
	Processors    int             `json:"availableprocessors"`
	AgentCount    int             `json:"agentcount"`
	Sessions      int             `json:"sessions"`
	HeapUsed      uint64          `json:"heapmemoryused"`
	HeapTotal     uint64          `json:"heapmemorytotal"`
	Blocked       int             `json:"threadsblockedcount"`
	Daemon        int             `json:"threadsdaemoncount"`
	Runnable      int             `json:"threadsrunnablecount"`
	Terminated    int             `json:"threadsteminatedcount"` // spelled as in CloudStack
	Threads       int             `json:"threadstotalcount"`
	Waiting       int             `json:"threadswaitingcount"`
	MemoryTotal   string          `json:"systemmemorytotal"`
	MemoryFree    string          `json:"systemmemoryfree"`
	MemoryVirtual string          `json:"systemmemoryvirtualsize"`
	LogInfo       string          `json:"loginfo"`
	Cycles        float64         `json:"systemtotalcpucycles"`
	Load          [3]float64      `json:"systemloadaverages"`
	CycleUsage    [3]int64        `json:"systemcycleusage"`
	LocalDB       bool            `json:"dbislocal"`
	LocalUsage    bool            `json:"usageislocal"`
	CPULoad       string          `json:"cpuload"`
	Collected     *wire.Timestamp `json:"collectiontime"`
}

// viewManagementServer describes this server. It does not disclose the operating system or runtime of the machine.
func viewManagementServer(c *wire.Call) managementView {
	started := wire.Stamp(c.St.Root().Created)
	return managementView{
		ID: c.St.MsID, Name: "localhost", State: "Up", Version: c.St.Version, JavaName: "none", Java: "none", OS: "none", Kernel: "none",
		Start: started, Stop: started, Boot: started, ServiceIP: "127.0.0.1", IPAddress: "127.0.0.1",
	}
}

func viewManagementMetrics(c *wire.Call) managementView {
	v := viewManagementServer(c)
	for _, h := range c.St.Hosts.Rows {
		if !h.Removed {
			v.Agents = append(v.Agents, h.UUID)
		}
	}
	v.Last, v.Count, v.Pending = v.Agents, wire.Ptr(len(v.Agents)), wire.Ptr(len(c.St.Due))
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	n := runtime.NumGoroutine()
	v.managementMetrics = &managementMetrics{
		Processors: runtime.NumCPU(), AgentCount: len(v.Agents), Sessions: c.Server.Sessions.Count(), HeapUsed: mem.HeapAlloc, HeapTotal: mem.HeapSys,
		Threads: n, Runnable: 1, Waiting: n - 1, MemoryTotal: mebibytes(mem.Sys),
		MemoryFree: mebibytes(mem.HeapIdle), MemoryVirtual: mebibytes(mem.Sys), LocalDB: true,
		CPULoad: "0.00 %", Collected: wire.Stamp(c.Now),
	}
	return v
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.2f MB", float64(n)/(1<<20)) }

func managementServers(c *wire.Call, view func() managementView) (any, error) {
	var out []managementView
	v := view()
	switch {
	case c.Given("id") && c.Refs["id"].Obj == nil, c.Has("name") && !strings.EqualFold(c.Str("name"), v.Name):
	case c.Has("keyword") && !store.Like(v.Name, c.Str("keyword")):
	default:
		out = append(out, v)
	}
	return wire.Page(c, "managementserver", out, func(m managementView) managementView { return m })
}

// apiLimitView is the API object apilimit. Its mixed-case names are those of CloudStack.
type apiLimitView struct {
	AccountID string `json:"accountid"`
	Account   string `json:"account"`
	Issued    int    `json:"apiIssued"`
	Allowed   int    `json:"apiAllowed"`
	Expire    int64  `json:"expireAfter"` // in milliseconds
}

func getAPILimit(c *wire.Call) (any, error) {
	a := c.Caller.Account
	id := a.UUID
	if c.Caller.ByKey {
		id = uuid.NewString() // for callers with API keys, CloudStack answers an id that is not the account's
	}
	n, left := c.Server.Throttle.Used(a, c.St.Settings.ThrottleInterval(), c.Now)
	return struct {
		Limit apiLimitView `json:"apilimit"`
	}{apiLimitView{AccountID: id, Account: a.Name, Issued: n, Allowed: settings.Atoi(c.St.Setting("api.throttling.max")) - n, Expire: left.Milliseconds()}}, nil
}

func resetAPILimit(c *wire.Call) (any, error) {
	c.Server.Throttle.Reset(wire.Arg[*store.Account](c, "account"))
	return wire.Success{Success: true}, nil
}
