// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// jobsCommands are the commands of this family.
var jobsCommands = []command{
	{name: "queryAsyncJobResult", run: queryAsyncJobResult},
	{name: "listAsyncJobs", run: listAsyncJobs},
}
