// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "createTags", Submit: createTags, Class: "user.tag.CreateTagsCmd", Order: []string{"tags", "resourcetype", "resourceids"}},
	{Name: "deleteTags", Submit: deleteTags, Class: "user.tag.DeleteTagsCmd", Order: []string{"tags", "resourcetype", "resourceids"}},
	{Name: "listTags", Run: listTags},

	{Name: "listApis", Run: listAPIs},
	{Name: "listCapabilities", Run: listCapabilities},

	{Name: "listManagementServers", Refs: managementRefs, Run: func(c *wire.Call) (any, error) {
		return managementServers(c, func() managementView { return viewManagementServer(c) })
	}},
	{
		Name: "listManagementServersMetrics", Refs: managementRefs,
		Run: func(c *wire.Call) (any, error) {
			return managementServers(c, func() managementView { return viewManagementMetrics(c) })
		},
	},
	{Name: "getApiLimit", Run: getAPILimit},
	{Name: "resetApiLimit", Refs: map[string]store.RefKind{"account": store.RefAccount}, Write: true, Run: resetAPILimit},
	{Name: "logout", Run: func(*wire.Call) (any, error) { return map[string]string{"description": "success"}, nil }},

	{Name: "listConfigurations", Run: listConfigurations},
	{Name: "updateConfiguration", Write: true, Run: updateConfiguration},
	{Name: "resetConfiguration", Write: true, Run: resetConfiguration},
}
