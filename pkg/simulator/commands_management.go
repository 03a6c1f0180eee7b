// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// managementCommands are the commands of this family.
var managementCommands = []command{
	{name: "createTags", submit: createTags, class: "user.tag.CreateTagsCmd", order: []string{"tags", "resourcetype", "resourceids"}},
	{name: "deleteTags", submit: deleteTags, class: "user.tag.DeleteTagsCmd", order: []string{"tags", "resourcetype", "resourceids"}},
	{name: "listTags", run: listTags},

	{name: "listApis", run: listAPIs},
	{name: "listCapabilities", run: listCapabilities},

	{name: "listManagementServers", refs: managementRefs, run: func(c *call) (any, error) { return c.managementServers(c.managementServer) }},
	{
		name: "listManagementServersMetrics", refs: managementRefs,
		run: func(c *call) (any, error) { return c.managementServers(c.managementMetrics) },
	},
	{name: "getApiLimit", run: getAPILimit},
	{name: "resetApiLimit", refs: map[string]refKind{"account": refAccount}, write: true, run: resetAPILimit},
	{name: "logout", run: func(*call) (any, error) { return map[string]string{"description": "success"}, nil }},

	{name: "listConfigurations", run: listConfigurations},
	{name: "updateConfiguration", write: true, run: updateConfiguration},
	{name: "resetConfiguration", write: true, run: resetConfiguration},
}
