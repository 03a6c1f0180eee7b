// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listEvents", Refs: eventRefs, Run: listEvents},
	{Name: "listEventTypes", Run: listEventTypes},
	{Name: "archiveEvents", Refs: eventRefs, Write: true, Run: func(c *wire.Call) (any, error) { return sweepEvents(c, "archive") }},
	{Name: "deleteEvents", Refs: eventRefs, Write: true, Run: func(c *wire.Call) (any, error) { return sweepEvents(c, "delete") }},
	{Name: "listAlerts", Run: listAlerts},
}
