// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// eventsCommands are the commands of this family.
var eventsCommands = []command{
	{name: "listEvents", refs: eventRefs, run: listEvents},
	{name: "listEventTypes", run: listEventTypes},
	{name: "archiveEvents", refs: eventRefs, write: true, run: func(c *call) (any, error) { return c.sweepEvents("archive") }},
	{name: "deleteEvents", refs: eventRefs, write: true, run: func(c *call) (any, error) { return c.sweepEvents("delete") }},
	{name: "listAlerts", run: listAlerts},
}
