// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network implements the commands for zones, networks, VPCs, ACLs, public addresses, firewall rules and port
// forwarding.
package network
