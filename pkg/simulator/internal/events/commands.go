// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listEvents", Refs: eventRefs, Run: listEvents},
}
