// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "queryAsyncJobResult", Run: queryAsyncJobResult},
	{Name: "listAsyncJobs", Run: listAsyncJobs},
}
