// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/google/uuid"
)

var managementRefs = map[string]refKind{"id": refManagement}

// managementView is the API object managementserver. The metrics command shows more of its fields.
type managementView struct {
	*managementMetrics
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	State     string     `json:"state"`
	Version   string     `json:"version"`
	JavaName  string     `json:"javadistribution"`
	Java      string     `json:"javaversion"`
	OS        string     `json:"osdistribution"`
	Start     *timestamp `json:"lastserverstart"`
	Stop      *timestamp `json:"lastserverstop"`
	Boot      *timestamp `json:"lastboottime"`
	Kernel    string     `json:"kernelversion"`
	ServiceIP string     `json:"serviceip"`
	IPAddress string     `json:"ipaddress"`
	Last      []string   `json:"lastagents,omitempty"`
	Agents    []string   `json:"agents,omitempty"`
	Count     *int       `json:"agentscount,omitempty"`
	Pending   *int       `json:"pendingjobscount,omitempty"`
}

// managementMetrics are the metrics of the management server; the values are those of the simulator's process.
type managementMetrics struct {
	Processors    int        `json:"availableprocessors"`
	AgentCount    int        `json:"agentcount"`
	Sessions      int        `json:"sessions"`
	HeapUsed      uint64     `json:"heapmemoryused"`
	HeapTotal     uint64     `json:"heapmemorytotal"`
	Blocked       int        `json:"threadsblockedcount"`
	Daemon        int        `json:"threadsdaemoncount"`
	Runnable      int        `json:"threadsrunnablecount"`
	Terminated    int        `json:"threadsteminatedcount"` // spelled as in CloudStack
	Threads       int        `json:"threadstotalcount"`
	Waiting       int        `json:"threadswaitingcount"`
	MemoryTotal   string     `json:"systemmemorytotal"`
	MemoryFree    string     `json:"systemmemoryfree"`
	MemoryVirtual string     `json:"systemmemoryvirtualsize"`
	LogInfo       string     `json:"loginfo"`
	Cycles        float64    `json:"systemtotalcpucycles"`
	Load          [3]float64 `json:"systemloadaverages"`
	CycleUsage    [3]int64   `json:"systemcycleusage"`
	LocalDB       bool       `json:"dbislocal"`
	LocalUsage    bool       `json:"usageislocal"`
	CPULoad       string     `json:"cpuload"`
	Collected     *timestamp `json:"collectiontime"`
}

// managementServer describes this server. It does not disclose the operating system or runtime of the machine.
func (c *call) managementServer() managementView {
	started := stamp(c.st.root().created)
	return managementView{
		ID: c.st.msID, Name: "localhost", State: "Up", Version: c.st.version, JavaName: "none", Java: "none", OS: "none", Kernel: "none",
		Start: started, Stop: started, Boot: started, ServiceIP: "127.0.0.1", IPAddress: "127.0.0.1",
	}
}

func (c *call) managementMetrics() managementView {
	v := c.managementServer()
	for _, h := range c.st.hosts.rows {
		if !h.removed {
			v.Agents = append(v.Agents, h.uuid)
		}
	}
	v.Last, v.Count, v.Pending = v.Agents, ptr(len(v.Agents)), ptr(len(c.st.due))
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	n := runtime.NumGoroutine()
	v.managementMetrics = &managementMetrics{
		Processors: runtime.NumCPU(), AgentCount: len(v.Agents), Sessions: c.server.sessions.count(), HeapUsed: mem.HeapAlloc, HeapTotal: mem.HeapSys,
		Threads: n, Runnable: 1, Waiting: n - 1, MemoryTotal: mebibytes(mem.Sys),
		MemoryFree: mebibytes(mem.HeapIdle), MemoryVirtual: mebibytes(mem.Sys), LocalDB: true,
		CPULoad: "0.00 %", Collected: stamp(c.now),
	}
	return v
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.2f MB", float64(n)/(1<<20)) }

func (c *call) managementServers(view func() managementView) (any, error) {
	var out []managementView
	v := view()
	switch {
	case c.given("id") && c.refs["id"].obj == nil, c.has("name") && !strings.EqualFold(c.str("name"), v.Name):
	case c.has("keyword") && !like(v.Name, c.str("keyword")):
	default:
		out = append(out, v)
	}
	return page(c, "managementserver", out, func(m managementView) managementView { return m })
}

// managementRows resolves the id of this server.
type managementRows struct{ st *state }

func (m managementRows) findUUID(v string) (any, int64) {
	if strings.EqualFold(v, m.st.msID) {
		return m.st, 1
	}
	return nil, 0
}

func (managementRows) findID(int64) any { return nil }

// apiLimitView is the API object apilimit. Its mixed-case names are those of CloudStack.
type apiLimitView struct {
	AccountID string `json:"accountid"`
	Account   string `json:"account"`
	Issued    int    `json:"apiIssued"`
	Allowed   int    `json:"apiAllowed"`
	Expire    int64  `json:"expireAfter"` // in milliseconds
}

func getAPILimit(c *call) (any, error) {
	a := c.caller.account
	id := a.uuid
	if c.caller.byKey {
		id = uuid.NewString() // for callers with API keys, CloudStack answers an id that is not the account's
	}
	n, left := c.server.throttle.used(a, c.st.settings.throttleInterval(), c.now)
	return struct {
		Limit apiLimitView `json:"apilimit"`
	}{apiLimitView{AccountID: id, Account: a.name, Issued: n, Allowed: atoi(c.st.setting("api.throttling.max")) - n, Expire: left.Milliseconds()}}, nil
}

func resetAPILimit(c *call) (any, error) {
	c.server.throttle.reset(arg[*account](c, "account"))
	return success{true}, nil
}
