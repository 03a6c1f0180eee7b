// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulator is a CloudStack management server in memory, behind the
// real HTTP API: signatures, sessions, roles, asynchronous jobs, owner
// filters, states and error texts are those of a CloudStack 4.22 with the
// virtual router as load balancer provider. It never invents behaviour: a
// command it does not implement is refused with a text that says so.
//
// What it does not simulate: traffic, the inside of routers, storage.
package simulator
