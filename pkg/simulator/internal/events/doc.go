// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records the events of commands, and lists them.
package events
