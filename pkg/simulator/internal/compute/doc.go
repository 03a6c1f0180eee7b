// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compute implements the commands for VMs, NICs, volumes, templates, offerings and hosts.
package compute
