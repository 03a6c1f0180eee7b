// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package management implements the commands for tags, settings, the commands themselves and the management server.
package management
