// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datapath plays HAProxy on the virtual routers of a simulated
// CloudStack: it listens where load balancer rules say, and forwards to their
// members by algorithm, source ranges, firewall, stickiness and checks. Where
// HAProxy is in its mode http (port 80, cookies, TLS), so is this: a request a
// connection, streamed both ways.
//
// What rules ask for is a function of the router's state (Desired); a Path keeps
// listeners in step with it. A change of rules cuts no connection: those that a
// rule or a member has had go on to their own end.
package datapath
