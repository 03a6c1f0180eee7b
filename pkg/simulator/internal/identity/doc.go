// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity implements the commands for domains, accounts, users, roles, projects and limits.
package identity
