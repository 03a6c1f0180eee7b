// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

var adminCommands = []command{
	{name: "listManagementServersMetrics", run: listManagementServersMetrics},
	{name: "logout", run: func(*call) (any, error) { return map[string]string{"description": "success"}, nil }},
}

// managementServer is this server. Figures of the machine that it runs on are left out.
type managementServer struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	State       string     `json:"state"`
	Version     string     `json:"version"`
	ServiceIP   string     `json:"serviceip"`
	IPAddress   string     `json:"ipaddress"`
	Sessions    int        `json:"sessions"`
	Collected   *timestamp `json:"collectiontime"`
	AgentsCount int        `json:"agentscount"`
	PendingJobs int        `json:"pendingjobscount"`
}

func listManagementServersMetrics(c *call) (any, error) {
	var out []managementServer
	if !c.has("name") || strings.EqualFold(c.str("name"), "localhost") {
		out = append(out, managementServer{
			ID: c.st.msID, Name: "localhost", State: "Up", Version: c.st.version, ServiceIP: "127.0.0.1", IPAddress: "127.0.0.1",
			Sessions: c.s.sessions.count(), Collected: stamp(c.now), AgentsCount: len(c.st.hosts.rows), PendingJobs: len(c.st.due),
		})
	}
	return page(c, "managementserver", out, func(m managementServer) managementServer { return m })
}
