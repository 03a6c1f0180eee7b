// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package balancer implements the commands for load balancer rules and certificates.
package balancer
