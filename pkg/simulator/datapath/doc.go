// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datapath simulates HAProxy on the virtual routers of a simulated CloudStack. It listens on the addresses
// and ports of load balancer rules and forwards connections to their members, with algorithms, source ranges,
// firewall, stickiness and health checks. Where CloudStack configures HAProxy in mode http (port 80, cookies, TLS),
// it forwards one HTTP request per connection and streams both bodies.
//
// Desired returns the configuration for the routers' state. A Path opens and closes listeners accordingly. A change
// of rules does not close connections: existing connections of a rule or a member continue until they end.
package datapath
