// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package management implements the commands for tags, settings, the commands themselves and the management server.
package management

import (
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{
		Name: "createTags", Submit: createTags, Class: "user.tag", Order: "tags resourcetype resourceids",
		Event: wire.Records("CREATE_TAGS", "creating resource tags", "", ""),
	},
	{
		Name: "deleteTags", Submit: deleteTags, Class: "user.tag", Order: "tags resourcetype resourceids",
		Event: wire.Records("DELETE_TAGS", "deleting resource tags", "", ""),
	},
	{Name: "listTags", Run: listTags},

	{Name: "listApis", Run: listAPIs},
	{Name: "listCapabilities", Run: listCapabilities},

	{Name: "logout", Run: func(*wire.Call) (any, error) { return map[string]string{"description": "success"}, nil }},

	{
		Name:  "updateConfiguration",
		Write: true,
		Run:   updateConfiguration,
		Event: wire.Records("CONFIGURATION.VALUE.EDIT", "updating configuration", "", ""),
	},
}
