// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulator is an in-memory CloudStack management server with the real HTTP API: signatures, sessions, roles,
// asynchronous jobs, owner filters, states and error texts are those of CloudStack 4.22 with the virtual router as
// load balancer provider. It does not invent behaviour: commands that it does not implement fail with an error that
// says so.
//
// It does not simulate traffic, the inside of routers, or storage.
package simulator
